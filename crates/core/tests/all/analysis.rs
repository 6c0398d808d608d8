//! Statistics and comparisons of tensors in files.

use ztensor_core::analysis::compare::{Comparison, Request, compare};
use ztensor_core::analysis::elements::Elements;
use ztensor_core::analysis::stats;
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::DType;
use ztensor_core::open::detect;
use ztensor_core::read::Reading;
use ztensor_core::sources::file::FileSource;
use ztensor_core::work::Watch;
use ztensor_core::write::{Spec, WriteFormat, Writer};

use crate::settings::settings;

/// Writes float32 tensors of one dimension and reads them.
fn with(name: &str, tensors: &[(&str, &[f32])], work: impl FnOnce(Reading<'_>)) {
    let path = std::env::temp_dir().join(format!("ztensor-{name}-{}", std::process::id()));
    let mut writer = Writer::create(&path, settings(WriteFormat::ZT2)).unwrap();
    for (name, numbers) in tensors {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let (shape, dtype) = ([numbers.len() as u64], Some(DType::Float32));
        let components = [("data", dtype, bytes.len() as u64)];
        let spec =
            Spec { name, shape: &shape, layout: "dense", dtype, attributes: None, components: &components };
        writer.add(spec, &bytes).unwrap();
    }
    writer.finish().unwrap();
    let source = FileSource::open(&path).unwrap();
    let catalog = detect::parse(&source, Formats::default(), &Limits::default()).unwrap();
    let (limits, watch) = (Limits::default(), Watch::default());
    work(Reading { sources: &source, catalog: &catalog, limits: &limits, watch: &watch });
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_histogram_covers_the_requested_range() {
    with("histogram", &[("t", &[0.5, 1.5, 1.5, 9.0])], |reading| {
        let tensor = reading.catalog.tensor(0).unwrap();
        let counts = |bins, range| {
            let found = reading.stats(tensor, &stats::Request { bins, range }).unwrap();
            found.histogram.map(|histogram| (histogram.edges, histogram.counts))
        };
        assert_eq!(counts(2, Some((0.0, 2.0))), Some((vec![0.0, 1.0, 2.0], vec![1, 2])));
        assert_eq!(counts(1, None), Some((vec![0.5, 9.0], vec![4])));
        assert_eq!(counts(0, Some((0.0, 2.0))), None);
    });
}

#[test]
fn comparison_counts_differing_elements() {
    with("compared", &[("a", &[1.0, 2.0, 3.0]), ("b", &[1.0, 2.5, 4.0])], |reading| {
        let [a, b] =
            [0, 1].map(|at| Elements::of_tensor(&reading, reading.catalog.tensor(at).unwrap()).unwrap());
        let found = compare(&a, &b, Request::default(), reading.watch).unwrap();
        assert_eq!((found.identical, found.differing, found.first), (false, 2, Some(1)));
        assert_eq!((found.max_absolute, found.max_relative), (1.0, 0.25));
        let same = compare(&a, &a, Request::default(), reading.watch).unwrap();
        assert_eq!(same, Comparison::default());
    });
}

#[test]
fn tensor_names_are_concatenated_with_their_ends() {
    with("names", &[("one", &[1.0]), ("of", &[2.0]), ("three", &[3.0])], |reading| {
        let mut start = 0;
        for tensor in reading.catalog.iter() {
            assert_eq!(&reading.catalog.names()[start..tensor.name_end()], tensor.name());
            start = tensor.name_end();
        }
        assert_eq!(start, reading.catalog.names().len());
    });
}
