//! The steps of a conversion as its hosts take them, after tensors are selected: the plan, the beginning of the target, and the copy.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use ciborium::Value;

use super::{Casts, Conversion, Examined, Selection, copy, lay_out, written_as};
use crate::edit::AttributeChanges;
use crate::error::{Code, Error, Result};
use crate::formats::Formats;
use crate::model::{Attributes, Catalog, DType, SetPart};
use crate::read::Reading;
use crate::read::staging::stored_bytes;
use crate::read::total::{self, Work};
use crate::sources::read_ahead::ReadAhead;
use crate::syntax::json_text::JsonText;
use crate::syntax::values::visit;
use crate::write::{WriteFormat, Writer};

/// The name of this package among the programs that read a file.
const THIS: &str = "ztensor";
/// Keys of attributes that a message names.
const NAMED: usize = 10;

/// What to make of the tensors of a selection.
#[allow(clippy::struct_excessive_bools)] // options, each of its own meaning
pub struct PlanRequest {
    pub format: &'static WriteFormat,
    pub canonical: bool,
    /// Whether attributes that the target cannot hold are a reason to refuse a tensor.
    pub strict: bool,
    /// Whether the attributes of the file are written, without those that the target cannot hold.
    pub copies: bool,
    /// Casts of single tensors: ordinals, dtypes and new dtypes.
    pub casts: Vec<(u32, DType, DType)>,
    /// Attributes instead of those of the source.
    pub own: Option<Attributes>,
    /// Changes of either.
    pub changes: AttributeChanges,
    /// Whether the attributes need not say which model it is.
    pub is_any: bool,
    /// Why the source is not converted as a checkpoint.
    pub lack: Option<String>,
}

/// What a conversion will do, besides what [`Conversion`] has.
pub struct Plan<Q> {
    pub examined: Examined,
    /// What the target does not hold of the attributes, if they are written.
    pub left_out: Option<LeftOut>,
    pub quantized: Q,
    /// Whether the source is a file of the format, and the attributes say which model it is.
    pub is_copy: bool,
    /// Whether a tensor is dequantized because of the option, or would be if it were not quantized.
    pub dequantizes: bool,
    /// The first of the keys to remove that does not exist, as a message names it.
    pub missing: Option<String>,
    /// The attribute that states the type of most bytes, if it is not that of the source.
    pub stated_type: Option<(&'static str, Option<u32>)>,
}

/// The attributes that a target does not hold.
pub struct LeftOut {
    pub count: usize,
    /// The first keys.
    pub first: Vec<String>,
    /// Why the others are not written either: all of them are too many.
    pub refused: Option<Error>,
}

/// The text of a key that is not text, as JavaScript spells it: a list without its brackets.
fn shown(key: &Value) -> String {
    let mut json = JsonText::default();
    let visited = visit(key, &mut json);
    let text = visited.ok().and_then(|()| json.take()).unwrap_or_else(|| "bytes".to_owned());
    let items = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    items.map(str::to_owned).unwrap_or(text)
}

/// A part of the tensors that are written, as one file of a set. A set of one file has no positions.
pub struct Part {
    /// Positions of tensors in the order of writing.
    pub positions: Range<usize>,
    /// Number of the file, from 0 on, and of all files.
    pub number: u64,
    pub count: u64,
}

impl Part {
    /// Keeps the tensors of the part. Returns the position of its file.
    fn take(&self, selection: &mut Selection) -> Result<Option<SetPart>> {
        let (total, Range { start, end }) = (selection.len(), self.positions.clone());
        if end > total || start > end {
            let message = format!(
                "the tensors from {start} to {end} were to be written, of {total}: plan the job again"
            );
            return Err(Error::new(Code::InvalidArg, message));
        }
        selection.keep(start, end);
        let (number, count) = (self.number, self.count);
        Ok((count > 1).then_some(SetPart { number, count, tensors: Some(total as u64) }))
    }
}

/// Tensors in the order of the writer.
pub struct Begun {
    pub tensors: usize,
    /// Their stored bytes.
    pub stored: u64,
    /// The programs that can read the file.
    pub readers: Vec<&'static str>,
}

/// Reads with the catalog of the target, if there is one.
pub fn derived<'a>(derived: Option<&'a Catalog>, reading: Reading<'a>) -> Reading<'a> {
    Reading { catalog: derived.unwrap_or(reading.catalog), ..reading }
}

impl Conversion {
    /// Plans each tensor: casts, types of blocks, and what the target cannot hold. `held`: the bytes of the files of the source. `quantize`
    /// chooses the types of blocks. Rejects tensors whose total size far exceeds that of their file, and duplicate names. Fails with
    /// `ZT_INVALID_ARG` if the attributes do not say which model it is, unless `is_any` is set or the source has the format already.
    pub fn plan<Q>(
        &mut self,
        reading: Reading<'_>,
        formats: Formats,
        held: u64,
        request: PlanRequest,
        quantize: impl FnOnce(&mut Self, &Catalog, &AttributeChanges) -> Result<Q>,
    ) -> Result<Plan<Q>> {
        let PlanRequest { format, canonical, strict, copies, casts, own, changes, is_any, lack } = request;
        let own_catalog = self.derived.clone();
        let reading = derived(own_catalog.as_deref(), reading);
        let catalog = reading.catalog;
        self.cast(catalog, &casts)?;
        if let Some(lack) = lack {
            self.lack = Some(lack.into());
        }
        let is_copy = self.model(catalog, format, own.as_ref(), &changes, is_any)?;
        let quantized = quantize(self, catalog, &changes)?;
        let (dequantizes, missing) = self.effects(catalog, own.as_ref(), &changes)?;
        let stated_type = self.stated_type(catalog, formats)?;
        total::check(catalog, reading.limits, self.selection.ordinals(), held, Work::Copy)?;
        let examined = self.examine(reading, (format, canonical), strict)?;
        let is_fitted = copies && self.attributes.is_some();
        let left_out = if is_fitted {
            let (keys, refused) = self.fit(catalog, format, canonical)?;
            let name = |key: &Value| key.as_text().map_or_else(|| shown(key), str::to_owned);
            let first = keys.iter().take(NAMED).map(name).collect();
            Some(LeftOut { count: keys.len(), first, refused })
        } else {
            None
        };
        let missing = missing.map(|key| key.as_text().map_or_else(|| shown(&key), |key| format!("{key:?}")));
        Ok(Plan { examined, left_out, quantized, is_copy, dequantizes, missing, stated_type })
    }

    /// Removes the tensors that cannot be held, and those of other parts, and sorts the rest into the order that the writer needs.
    pub fn begin(&mut self, reading: Reading<'_>, writer: &mut Writer, part: Option<&Part>) -> Result<Begun> {
        let positions = self.left_out();
        let Self { selection, casts, derived: own, refused, readers, .. } = self;
        let reading = derived(own.as_deref(), reading);
        let catalog = reading.catalog;
        let selected = Arc::make_mut(selection);
        selected.leave_out(&positions);
        refused.clear();
        if let Some(place) = part.map(|part| part.take(selected)).transpose()?.flatten() {
            writer.set_part(place);
        }
        if writer.format().canonical.is_some() {
            selected.sort(catalog);
        }
        lay_out(reading, selected, casts, writer)?;
        let mut is_basic = true;
        for (_, tensor) in selected.tensors(catalog) {
            let (layout, ..) = written_as(tensor, casts)?;
            is_basic &= matches!(layout, "dense" | "sparse_csr" | "sparse_coo");
        }
        let is_read = (writer.format().is_read_by_others)(is_basic, writer.attributes())?;
        let readers = if is_read { readers.clone() } else { vec![THIS] };
        Ok(Begun { tensors: selected.len(), stored: selected.stored(catalog), readers })
    }
}

/// Copies the tensors at a range of positions. `reading` has the catalog of the target, if there is one.
pub fn copy_range(
    reading: Reading<'_>,
    selection: &Selection,
    casts: &Casts,
    positions: Range<usize>,
    writer: &mut Writer,
) -> Result<()> {
    let count = positions.len();
    let tensors = selection.tensors(reading.catalog).skip(positions.start).take(count);
    let stored = tensors.clone().map(|(_, tensor)| stored_bytes(tensor)).fold(0, u64::saturating_add);
    reading.watch.expect(stored, count as u64);
    let ahead = ReadAhead::new(reading.sources, reading.catalog.shards.len());
    let reading = Reading { sources: &ahead, ..reading };
    for (at, tensor) in tensors {
        copy(reading, tensor, &selection.name(at, tensor), casts, writer)?;
        reading.watch.did_tensor();
    }
    Ok(())
}
