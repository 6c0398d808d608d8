//! Sparse tensors that are too large for memory: their blobs are decoded into an unnamed temporary file, and read from there in blocks.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::column::Column;
use crate::error::Result;
use crate::model::{Component, Tensor};
use crate::read::Reading;
use crate::sinks::Spool;
use crate::write::sparse::Array;

/// Returns the arrays of the components of a tensor, decoded into `spool`.
pub fn arrays(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    mut spool: Spool,
) -> Result<Vec<Box<dyn Array>>> {
    let ranges = fill(reading, tensor, parts, &mut spool)?;
    let spool = Arc::new(spool);
    let column = |(part, &range): (&&Component, _)| {
        let column = Column::new(Arc::clone(&spool), part, range);
        column.map(|column| Box::new(column) as Box<dyn Array>).map_err(|error| error.tensor(tensor.name()))
    };
    parts.iter().zip(&ranges).map(column).collect()
}

/// Decodes each blob into the spool, shared ones only once, and returns the range of the blob of each component.
fn fill(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    spool: &mut Spool,
) -> Result<Vec<(u64, u64)>> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut end = 0;
    for (at, part) in parts.iter().enumerate() {
        let shared = parts.iter().take(at).position(|earlier| {
            let key = |part: &Component| part.blob().map(|blob| (blob.span(), blob.encoding));
            key(part).is_some_and(|blob| key(earlier) == Some(blob))
        });
        if let Some(range) = shared.and_then(|shared| ranges.get(shared)) {
            ranges.push(*range);
            continue;
        }
        let start = end;
        let written = reading.blob_pieces(part, |piece| {
            end += piece.len() as u64;
            spool.write(piece)
        });
        written.map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)))?;
        ranges.push((start, end));
    }
    Ok(ranges)
}
