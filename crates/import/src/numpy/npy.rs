//! `.npy`: one array. It has no name; like `numpy.savez`, we call it `arr_0`.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;
use ztensor_core::formats::{Confidence, Format, Index, Input, Probe, WriteFormat};
use ztensor_core::model::{Blob, Builder, Catalog, Container};

use super::array::ARRAY;
use super::header::{Header, MAGIC};
use super::{array, encode};

const NAME: &str = "npy";

pub const FORMAT: Format = Format {
    name: NAME,
    title: "NumPy npy",
    endings: &["npy"],
    missing: "no NumPy magic",
    detect,
    parse,
    writes: &[&WRITE_FORMAT],
    header: None,
};

pub static WRITE_FORMAT: WriteFormat = WriteFormat {
    format: NAME,
    title: "NumPy npy",
    readers: &["numpy.load", "ztensor"],
    index: Index::First(encode::put_npy),
    holds: |dtype| encode::name_of(dtype).is_some(),
    ..WriteFormat::DENSE
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(8)?.starts_with(MAGIC) { Confidence::Certain } else { Confidence::No })
}

/// Reads the header of an array.
pub fn parse(input: &Input<'_>) -> Result<Catalog> {
    let total = input.length();
    let header = Header::read(|count| input.read_vec(0, count.min(total)), input.limits)?;
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    let blob = Blob::raw(header.length, total - header.length);
    array::add(&mut builder, ARRAY, &header, blob, 0).map_err(|error| error.tensor(ARRAY))?;
    Ok(builder.finish())
}
