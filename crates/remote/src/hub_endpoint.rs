//! The endpoint of the Hugging Face hub: its URLs and credentials.

use std::sync::Arc;

use reqwest::Url;
use ztensor_core::error::{Code, Error, Result};

use crate::client::Client;
use crate::hub_address::Address;
use crate::hub_cache::{expanded, home};
use crate::options::Options;
use crate::origin::{Credentials, Target};

const ENDPOINT: &str = "https://huggingface.co";

/// The endpoint of the hub and its credentials.
pub struct Hub {
    pub client: Arc<Client>,
    endpoint: Url,
    credentials: Arc<Credentials>,
}

impl Hub {
    pub fn new(options: &Options) -> Result<Self> {
        let given = options.variable("HF_ENDPOINT");
        let mut endpoint = Url::parse(given.as_deref().unwrap_or(ENDPOINT))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| {
                Error::new(Code::InvalidArg, "the variable HF_ENDPOINT is not the URL of a hub")
            })?;
        endpoint.set_query(None);
        endpoint.set_fragment(None);
        let mut credentials = Credentials::new(options.header_map()?);
        credentials.take(&mut endpoint);
        if !options.is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")
            && !credentials.identifies()
            && let Some(token) = token(options)
        {
            credentials.bearer(&token)?;
        }
        Ok(Self { client: Arc::new(Client::new(options)?), endpoint, credentials: Arc::new(credentials) })
    }

    /// Returns a URL of the hub. Its parts are names, in which special characters are escaped.
    fn target<'n>(&self, address: &'n Address, parts: impl IntoIterator<Item = &'n str>) -> Result<Target> {
        let mut url = self.endpoint.clone();
        let add = |url: &mut Url, parts: &mut dyn Iterator<Item = &'n str>| match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(parts);
                Ok(())
            }
            Err(()) => Err(Error::new(Code::InvalidArg, "the variable HF_ENDPOINT is not the URL of a hub")),
        };
        add(&mut url, &mut parts.into_iter())?;
        let mut page = self.endpoint.clone();
        let kind = (address.kind != "models").then_some(address.kind);
        add(&mut page, &mut kind.into_iter().chain([&*address.owner, &*address.name]))?;
        let (path, credentials) = (address.text(), Arc::clone(&self.credentials));
        Ok(Target { url, path, credentials, hub: Some(String::from(page).into()) })
    }

    /// Returns the target of a file.
    pub fn file(&self, address: &Address) -> Result<Target> {
        let kind = (address.kind != "models").then_some(address.kind);
        let repository = [&*address.owner, &*address.name, "resolve", &*address.revision];
        self.target(
            address,
            kind.into_iter().chain(repository).chain(address.inner.iter().map(|name| &**name)),
        )
    }

    /// Returns the API target of a revision.
    pub fn revision(&self, address: &Address) -> Result<Target> {
        let Address { kind, owner, name, revision, .. } = address;
        let mut target = self.target(address, ["api", kind, &**owner, &**name, "revision", &**revision])?;
        // With the sizes of files.
        target.url.set_query(Some("blobs=true"));
        Ok(target)
    }

    /// Returns the API target of a folder.
    pub fn tree(&self, address: &Address) -> Result<Target> {
        let Address { kind, owner, name, revision, inner } = address;
        let parts = ["api", kind, &**owner, &**name, "tree", &**revision];
        self.target(address, parts.into_iter().chain(inner.iter().map(|name| &**name)))
    }
}

/// Returns the token from the environment, or the one stored by `hf auth login`.
fn token(options: &Options) -> Option<String> {
    let given = options.variable("HF_TOKEN").or_else(|| options.variable("HUGGING_FACE_HUB_TOKEN"));
    let read = || {
        let given = options.path("HF_TOKEN_PATH").map(|path| expanded(&path, options));
        let path = given.or_else(|| Some(home(options)?.join("token")))?;
        // A token has some 40 bytes.
        path.metadata().ok().filter(|file| file.is_file() && file.len() <= 4096)?;
        std::fs::read_to_string(path).ok()
    };
    given.or_else(read).map(|token| token.trim().to_owned()).filter(|token| !token.is_empty())
}
