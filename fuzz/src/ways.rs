//! Compares all ways of reading a file, which must agree. Used by the fuzz targets and a test of the core.

use ztensor_core::analysis::compare::{Request, Side, compare_all};
use ztensor_core::analysis::elements::Elements;
use ztensor_core::analysis::stats;
use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::widen;
use ztensor_core::model::slice::TensorSlice;
use ztensor_core::model::{Component, DType, Label, Layout, Span, Tensor};
use ztensor_core::read::plan::{self, Rank};
use ztensor_core::read::total::{self, Work};
use ztensor_core::read::{Reading, batch};
use ztensor_core::sources::decoded::DecodedPieces;
use ztensor_core::sources::{DigestedFile, ReadAt, Sources};
use ztensor_core::verify;

/// Maximum tensors of a file that are read, and maximum bytes of one for which everything is tried.
const TENSORS: usize = 64;
const MAX: u64 = 1 << 20;

/// A result with one of our errors.
fn judged<T>(result: Result<T>, tensor: Tensor<'_>) -> Result<T> {
    if let Err(error) = &result {
        assert_ne!(error.code(), Code::Internal, "{}: {error}", tensor.name());
    }
    result
}

/// Sources whose decoded pieces are kept, as those of files are.
struct Kept<'a>(&'a dyn Sources, DecodedPieces);

impl Sources for Kept<'_> {
    fn source(&self, file: u32) -> Result<&dyn ReadAt> {
        self.0.source(file)
    }

    fn decoded(&self) -> Option<&DecodedPieces> {
        Some(&self.1)
    }

    fn digested(&self) -> Vec<DigestedFile<'_>> {
        self.0.digested()
    }
}

/// Panics if two ways of reading a tensor disagree.
pub fn agree(reading: Reading<'_>, held: u64) {
    let kept = Kept(reading.sources, DecodedPieces::default());
    let reading = Reading { sources: &kept, ..reading };
    let catalog = reading.catalog;
    let ordinals: Vec<u32> = (0..).take(catalog.len().min(TENSORS)).collect();
    for work in [Work::Load, Work::Copy, Work::Verify] {
        let _ = total::check(catalog, reading.limits, &ordinals, held, work);
    }
    let _ = verify::verify(reading, &ordinals);
    for tensor in catalog.iter().take(TENSORS) {
        let loads: Vec<_> = tensor
            .components()
            .iter()
            .map(|part| judged(reading.component(tensor, part).map(|bytes| bytes.to_vec()), tensor))
            .collect();
        for (part, loaded) in tensor.components().iter().zip(&loads) {
            component(reading, tensor, part, loaded);
        }
        let data = tensor.data().filter(|data| data.dtype.is_some());
        let at = tensor.components().iter().position(|part| data.is_some_and(|data| data.role == part.role));
        if let (Some(data), Some(loaded)) = (data, at.and_then(|at| loads.get(at))) {
            dense(reading, tensor, data, loaded);
        }
        planned(tensor);
        verified(reading, tensor, &loads);
    }
}

/// The size of a component matches the index; its elements are those bytes.
fn component(reading: Reading<'_>, tensor: Tensor<'_>, part: &Component, loaded: &Result<Vec<u8>>) {
    let Ok(bytes) = loaded else { return };
    let name = tensor.name();
    if let Some(length) = part.byte_length() {
        assert_eq!(bytes.len() as u64, length, "{name} {part:?}");
    }
    let elements = judged(Elements::of_component(&reading, tensor, part), tensor).expect("it was loaded");
    let bits = part.dtype.map_or(8, DType::bits) as usize;
    assert_eq!(read_all(&elements), bytes[..(elements.count as usize * bits).div_ceil(8)], "{name} {part:?}");
    // The shape determines only the number of elements of the data, the indices the number of values of a sparse tensor.
    let is_stated = match tensor.layout() {
        Layout::Dense => part.role == Label::DATA,
        Layout::SparseCsr | Layout::SparseCoo => part.role == Label::VALUES,
        Layout::Other(_) => false,
    };
    if !is_stated || part.dtype.is_none() {
        assert_eq!(elements.count as usize, bytes.len() * 8 / bits, "{name} {part:?}");
    }
}

fn read_all(elements: &Elements<'_>) -> Vec<u8> {
    elements.to_vec().expect("it was loaded")
}

/// The elements of a dense tensor, read in all ways.
fn dense(reading: Reading<'_>, tensor: Tensor<'_>, data: &Component, loaded: &Result<Vec<u8>>) {
    let (name, ordinal) = (tensor.name(), u32::try_from(tensor.ordinal()).expect("as the builder has it"));
    let batched = judged(batch::load(reading, &[ordinal], None, 2, |_, _| {}), tensor);
    let bytes = match (loaded, batched) {
        (Err(one), Err(other)) => return assert_eq!(one.code(), other.code(), "{name}"),
        (Ok(bytes), Ok(batch)) => {
            let location = batch.locations[0];
            let block = location.block.map_or(&[][..], |block| &batch.blocks[block as usize]);
            let start = usize::try_from(location.offset).expect("it is in memory");
            assert_eq!(block.get(start..start + bytes.len()), Some(&bytes[..]), "{name}: a batch");
            bytes
        }
        (one, other) => panic!("{name}: {:?}, in a batch {:?}", one.is_ok(), other.map(|_| ())),
    };
    let dtype = data.dtype.expect("it is known");
    let elements = product(tensor.shape()).expect("the index was checked");
    let length = u128::from(elements) * u128::from(dtype.bits());
    assert_eq!(bytes.len() as u128, length.div_ceil(8), "{name}: the shape says how many");
    assert_eq!(tensor.byte_length(), bytes.len() as u64, "{name}: byte_length");
    if bytes.len() as u64 > MAX {
        return;
    }
    let whole = judged(Elements::of_tensor(&reading, tensor), tensor).expect("it was loaded");
    assert_eq!((whole.count, &read_all(&whole)[..]), (elements, &bytes[..]), "{name}: elements");
    cuts(reading, tensor, data, dtype, bytes);
    widened(reading, tensor, data, dtype, bytes, elements);
    if let Ok(stats) = judged(reading.stats(tensor, &stats::Request::default()), tensor) {
        assert_eq!(stats.count, elements, "{name}: statistics");
    }
    let side = |component| Side { tensor, component };
    let request = Request { norms: true, ..Request::default() };
    for other in [None, Some(data)] {
        let found = compare_all([reading, reading], &[[side(None), side(other)]], request);
        let found = found.expect("nothing stops it").remove(0);
        let (count, found) = judged(found, tensor).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((count, found.identical), (elements, true), "{name}: compared with itself");
    }
}

/// Slices, compared with slices packed from the whole.
fn cuts(reading: Reading<'_>, tensor: Tensor<'_>, data: &Component, dtype: DType, bytes: &[u8]) {
    let shape = tensor.shape();
    let whole: Vec<(u64, u64)> = shape.iter().map(|&dim| (0, dim)).collect();
    let mut all = vec![whole.clone(), shape.iter().map(|&dim| (dim / 2, dim)).collect()];
    for (dim, &size) in shape.iter().enumerate().take(4) {
        let mut ranges = whole.clone();
        ranges[dim] = (size / 3, size.min(size / 3 + 1));
        all.push(ranges);
    }
    for ranges in all {
        let Ok(slice) = TensorSlice::new(shape, &ranges, dtype.bits()) else { continue };
        let mut expected = vec![0; usize::try_from(slice.byte_length()).expect("less than the whole")];
        slice.pack(bytes, &mut expected).expect("it lies in the whole");
        let found = judged(reading.slice(tensor, data, &slice), tensor).expect("the whole was loaded");
        assert_eq!(&*found, &expected[..], "{}: {ranges:?}", tensor.name());
    }
}

fn widened(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    data: &Component,
    dtype: DType,
    bytes: &[u8],
    elements: u64,
) {
    let mut expected = vec![0; elements as usize * 4];
    let slow = widen::to_float32(dtype, bytes, &mut expected);
    let found = judged(reading.float32(tensor, data, None, dtype, elements), tensor);
    match (slow, found) {
        (Ok(()), Ok(found)) => assert_eq!(&*found, &expected[..], "{}: float32", tensor.name()),
        (Err(one), Err(other)) => assert_eq!(one.code(), other.code(), "{}", tensor.name()),
        (one, other) => panic!("{}: {one:?}, as it is read {:?}", tensor.name(), other.map(|_| ())),
    }
}

/// A plan lists exactly the bytes that loading reads.
fn planned(tensor: Tensor<'_>) {
    if tensor.is_unread() {
        return;
    }
    let own = Span::joined(tensor.own_spans().collect());
    for dim in [None, Some(0)] {
        for world_size in [1, 2, (1 << 53) - 1, u64::MAX] {
            let spans = plan::spans([(tensor, dim)], Rank { rank: world_size - 1, world_size });
            let Ok(spans) = judged(spans, tensor) else { continue };
            if dim.is_none() {
                assert_eq!(spans, own, "{}", tensor.name());
            }
            for span in spans.iter().filter(|span| span.length > 0) {
                let holds = |whole: &&Span| {
                    whole.file == span.file && whole.offset <= span.offset && span.end() <= whole.end()
                };
                assert!(own.iter().any(|whole| holds(&whole)), "{}: {span:?} of {own:?}", tensor.name());
            }
        }
    }
}

/// A verification finds nothing exactly if everything loads, and reports the same errors.
fn verified(reading: Reading<'_>, tensor: Tensor<'_>, loads: &[Result<Vec<u8>>]) {
    let sparse = matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo) && tensor.dtype().is_some();
    let arrays = if sparse { reading.sparse(tensor).map(drop) } else { Ok(()) };
    let failed = loads.iter().filter_map(|load| load.as_ref().err()).chain(arrays.as_ref().err());
    let codes: Vec<Code> = failed.map(Error::code).collect();
    // Verification does not read data with unsupported encodings, and damage of its index is that of the file.
    if tensor.components().iter().any(|part| !part.encoding().is_known()) {
        return;
    }
    // None of these means damage; ZT_IO is for data in another file, which a file in memory cannot open.
    if codes.iter().any(|code| matches!(code, Code::UnsupportedEncoding | Code::Limit | Code::Io)) {
        return;
    }
    let ordinal = u32::try_from(tensor.ordinal()).expect("as the builder has it");
    let outcome = judged(verify::verify(reading, &[ordinal]), tensor).expect("it is in memory");
    let name = tensor.name();
    // If it is the only tensor, the digest of a member that contains more is verified too, which no load does.
    let failures: Vec<_> =
        outcome.failures.into_iter().filter(|failure| failure.tensor_name().is_some()).collect();
    assert_eq!(failures.is_empty(), codes.is_empty(), "{name}: {failures:?}, loads {codes:?}");
    for failure in failures {
        assert!(codes.contains(&failure.code()), "{name}: {failure}, loads {codes:?}");
    }
}
