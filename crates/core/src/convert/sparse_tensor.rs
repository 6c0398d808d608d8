//! Conversion of sparse tensors: small ones in memory, large ones via an unnamed temporary file.
#![forbid(unsafe_code)]

use super::cast::{CastArray, Casts};
use super::spooled;
use crate::error::{Code, Error, Result};
use crate::layouts::elements::RuleCheck;
use crate::model::{Component, DataRule, Tensor};
use crate::read::{Reading, sparse_parts};
use crate::write::sparse::{Array, IndexTypes, NewSpool, OwnedArray, Sparse, blocks};
use crate::write::{Spec, WriteFormat, Writer};

/// Maximum size in bytes of a sparse tensor that is checked and reordered in memory.
const HELD: u64 = 8 << 20;

/// Returns whether the arrays are too large for memory. WebAssembly has no temporary files.
fn is_spooled(parts: &[&Component]) -> bool {
    if cfg!(target_family = "wasm") {
        return false;
    }
    let length = parts.iter().try_fold(0_u64, |total, part| total.checked_add(part.byte_length()?));
    length.is_none_or(|length| length > HELD)
}

/// Returns the tensor in the form that the format requires, before its values are cast.
fn read(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    format: &'static WriteFormat,
    new_spool: NewSpool<'_>,
) -> Result<Sparse> {
    let (parts, stop) = (sparse_parts(tensor)?, &reading.watch.stop);
    let held = |part: &&Component| {
        let dtype = part.dtype.ok_or_else(|| {
            Error::new(Code::BadDtype, "the type of an array is unknown").tensor(tensor.name())
        })?;
        Ok(Box::new(OwnedArray::new(dtype, reading.component(tensor, part)?)) as Box<dyn Array>)
    };
    let arrays = if is_spooled(&parts) {
        spooled::arrays(reading, tensor, &parts, new_spool()?)?
    } else {
        parts.iter().map(held).collect::<Result<_>>()?
    };
    let promised = parts.get(1).and_then(|part| part.rule);
    let strictly = format.profiles || promised.is_some();
    Sparse::checked(tensor.layout(), tensor.shape(), arrays, strictly, stop)
        .and_then(|sparse| sparse.strict(format, promised, new_spool, stop))
        .map_err(|error| error.tensor(tensor.name()))
}

/// Fails if [`copy`] would fail because of the tensor's data. `rule` is the target's requirement for the values.
/// `new_spool` creates an unnamed temporary file.
pub fn inspect(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    rule: Option<DataRule>,
    format: &'static WriteFormat,
    new_spool: NewSpool<'_>,
) -> Result<()> {
    let sparse = read(reading, tensor, format, new_spool)?;
    let mut elements = RuleCheck::new(rule);
    if elements.is_any() {
        let values = sparse.values();
        blocks(values, 0..values.elements(), &reading.watch.stop, |_, bytes| elements.update(bytes))?;
    }
    elements.finish()
}

/// Copies the arrays of a sparse tensor. `spec` has the other components, whose bytes come after the arrays.
pub fn copy(
    reading: Reading<'_>,
    tensor: Tensor<'_>,
    casts: &Casts,
    writer: &mut Writer,
    spec: Spec<'_>,
) -> Result<()> {
    let format = writer.format();
    let sparse = read(reading, tensor, format, &|| writer.spool())?;
    let target = casts.target(tensor, sparse.values().dtype());
    let arranged =
        sparse.map_values(|values| CastArray::of(values, target)).arranged(format, IndexTypes::Source);
    let mut components = arranged.components();
    components.extend(spec.components);
    writer.begin(Spec { components: &components, ..spec })?;
    arranged.push_all(writer, &reading.watch.stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DType, Label};

    #[test]
    fn large_tensors_are_spooled() {
        let part = |length| Component::raw(Label::VALUES, Some(DType::Uint8), 0, length);
        let (half, more, max) = (part(HELD / 2), part(HELD / 2 + 1), part(u64::MAX));
        assert!(!is_spooled(&[&half, &half]));
        assert!(is_spooled(&[&half, &more]));
        assert!(is_spooled(&[&half, &max]), "more than can be counted");
    }
}
