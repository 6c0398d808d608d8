//! Measures how fast `object_store` alone reads a file, for the benchmarks: `by_object_store URL` reads all of it, 16 ranges of 8 MiB at
//! once, and prints the ms. `s3:` URLs use the AWS environment variables. The data remains in the chunks received, in fresh memory, as in a
//! program that loads a model once.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};

const PIECE: u64 = 8 << 20;
const AT_ONCE: usize = 16;

fn main() {
    let url = std::env::args().nth(1).expect("a URL");
    rustls::crypto::ring::default_provider().install_default().unwrap();
    let (store, path) = store(&url);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    println!("{{\"ms\":{}}}", runtime.block_on(load(&store, &path)));
}

fn store(url: &str) -> (Arc<dyn ObjectStore>, Path) {
    let (root, name) = url.rsplit_once('/').unwrap();
    let path = Path::parse(name).unwrap();
    if root.starts_with("s3:") {
        let store = AmazonS3Builder::from_env().with_url(root).with_allow_http(true).build();
        return (Arc::new(store.unwrap()), path);
    }
    let options = ClientOptions::new().with_allow_http(true);
    let store = HttpBuilder::new().with_url(root).with_client_options(options).build();
    (Arc::new(store.unwrap()), path)
}

/// Returns the elapsed ms.
async fn load(store: &Arc<dyn ObjectStore>, path: &Path) -> f64 {
    let start = Instant::now();
    let length = store.head(path).await.unwrap().size;
    let starts = (0..length).step_by(usize::try_from(PIECE).unwrap());
    let pieces = stream::iter(starts).map(|start| {
        let (store, path) = (Arc::clone(store), path.clone());
        let read = async move { store.get_range(&path, start..(start + PIECE).min(length)).await };
        async { tokio::spawn(read).await.unwrap() }
    });
    let pieces: Vec<_> = pieces.buffered(AT_ONCE).try_collect().await.unwrap();
    assert_eq!(pieces.iter().map(|piece| piece.len() as u64).sum::<u64>(), length);
    start.elapsed().as_secs_f64() * 1e3
}
