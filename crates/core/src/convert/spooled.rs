//! Sparse tensors that are too large to be held: their blobs are decoded into a nameless file, and read from there in blocks.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::column::Column;
use crate::error::Result;
use crate::model::{Component, Tensor};
use crate::read::Reading;
use crate::sinks::Spool;
use crate::write::sparse::Array;

/// The arrays that the components of a tensor are, decoded into `spool`.
pub fn arrays(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    mut spool: Spool,
) -> Result<Vec<Box<dyn Array>>> {
    let places = fill(reading, tensor, parts, &mut spool)?;
    let spool = Arc::new(spool);
    let column = |(part, &place): (&&Component, _)| {
        let column = Column::new(Arc::clone(&spool), part, place);
        column.map(|column| Box::new(column) as Box<dyn Array>).map_err(|error| error.tensor(tensor.name()))
    };
    parts.iter().zip(&places).map(column).collect()
}

/// Decodes each blob into the spool, one that several components share but once, and says where the blob of each component
/// begins and ends.
fn fill(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    parts: &[&Component],
    spool: &mut Spool,
) -> Result<Vec<(u64, u64)>> {
    let mut places: Vec<(u64, u64)> = Vec::new();
    let mut end = 0;
    for (at, part) in parts.iter().enumerate() {
        let shared = parts.iter().take(at).position(|earlier| {
            let place = |part: &Component| part.blob().map(|blob| (blob.span(), blob.encoding));
            place(part).is_some_and(|blob| place(earlier) == Some(blob))
        });
        if let Some(place) = shared.and_then(|shared| places.get(shared)) {
            places.push(*place);
            continue;
        }
        let start = end;
        let written = reading.blob_pieces(part, |piece| {
            end += piece.len() as u64;
            spool.write(piece)
        });
        written.map_err(|error| error.tensor(tensor.name()).component(reading.catalog.label(part.role)))?;
        places.push((start, end));
    }
    Ok(places)
}
