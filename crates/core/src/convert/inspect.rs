//! Determines whether the data of a tensor prevents its conversion, before anything is written, so that the tensor can be omitted.
#![forbid(unsafe_code)]

use super::{Casts, Target, sparse_tensor};
use crate::error::{Code, Error, Result};
use crate::layouts::elements::RuleCheck;
use crate::model::{Component, DType, DataRule, Label, Layout, Tensor};
use crate::read::Reading;
use crate::read::staging::stored_bytes;
use crate::sources::owned;
use crate::sources::read_ahead::ReadAhead;
use crate::write::Writer;
use crate::write::sparse::NewSpool;

/// Returns the rule that the elements of a component must satisfy for reading or for writing.
fn rule(tensor: Tensor<'_>, part: &Component, wanted: Target<'_>) -> Option<DataRule> {
    let bools = wanted.format.profiles && wanted.casts.component(tensor, part) == Some(DType::Bool);
    let own = part.rule.filter(|rule| matches!(rule, DataRule::Bool | DataRule::LastNibble));
    own.or_else(|| bools.then_some(DataRule::Bool))
}

/// Returns whether the data determines if the target can hold a tensor. For dense tensors it does not, except for
/// bools.
pub fn depends_on_data(tensor: Tensor<'_>, wanted: Target<'_>) -> bool {
    if wanted.casts.dequantized(tensor).is_some() || wanted.casts.quantized(tensor).is_some() {
        return false;
    }
    matches!(tensor.layout(), Layout::SparseCsr | Layout::SparseCoo)
        || tensor.components().iter().any(|part| rule(tensor, part, wanted).is_some())
}

/// Returns the tensors that the target cannot hold because of their data: their positions in `ordinals`, and the
/// errors. Fails if data cannot be read or does not match its digest.
pub fn unsupported(
    reading: Reading<'_>,
    ordinals: &[u32],
    casts: &Casts,
    writer: &Writer,
) -> Result<Vec<(usize, Error)>> {
    let ahead = ReadAhead::new(reading.sources, reading.catalog.shards.len());
    let reading = Reading { sources: &ahead, ..reading };
    let wanted = Target { format: writer.format(), canonical: false, casts };
    let tensors = ordinals.iter().enumerate();
    let tensors = tensors.filter_map(|(at, &ordinal)| Some((at, reading.catalog.tensor(ordinal as usize)?)));
    let lengths = tensors.clone().map(|(_, tensor)| stored_bytes(tensor));
    reading.watch.expect(lengths.fold(0, u64::saturating_add), ordinals.len() as u64);
    let mut found = Vec::new();
    for (at, tensor) in tensors {
        let inspected = inspect(reading, tensor, wanted, &|| writer.spool());
        owned::trim();
        match inspected {
            Err(error) if is_of_data(error.code()) => found.push((at, error.tensor(tensor.name()))),
            inspected => inspected?,
        }
        reading.watch.did_tensor();
    }
    Ok(found)
}

/// Fails if copying the tensor would fail because of its data. `spool` creates an unnamed temporary file for data that is too large for
/// memory.
fn inspect(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    wanted: Target<'_>,
    new_spool: NewSpool<'_>,
) -> Result<()> {
    match tensor.layout() {
        Layout::SparseCsr | Layout::SparseCoo => {
            let values = tensor.component(Label::VALUES).and_then(|values| rule(tensor, values, wanted));
            sparse_tensor::inspect(reading, tensor, values, wanted.format, new_spool)
        }
        _ => tensor.components().iter().try_for_each(|part| elements(reading, tensor, part, wanted)),
    }
}

fn elements(reading: Reading<'_>, tensor: Tensor<'_>, part: &Component, wanted: Target<'_>) -> Result<()> {
    let Some(rule) = rule(tensor, part, wanted) else { return Ok(()) };
    let mut elements = RuleCheck::new(Some(rule));
    let mut broken = Ok(());
    // If the data is damaged, report the digest and not the rules that it violates.
    let unruled = Component { rule: None, ..part.clone() };
    reading.pieces(tensor, &unruled, |piece| {
        if broken.is_ok() {
            broken = elements.update(piece);
        }
        Ok(())
    })?;
    let named = |error: Error| error.tensor(tensor.name()).component(reading.catalog.label(part.role));
    broken.and_then(|()| elements.finish()).map_err(named)
}

/// Returns whether an error means that data violates a rule, and not that it is missing or damaged.
fn is_of_data(code: Code) -> bool {
    matches!(code, Code::BadSparse | Code::BadDtype | Code::BadShape | Code::BadLayout)
}
