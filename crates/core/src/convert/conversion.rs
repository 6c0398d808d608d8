//! The plan of a conversion: its tensors and attributes, from the index of the source alone.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use ciborium::Value;

use super::{Casts, Selection, Target, attribute_refusal, depends_on_data, fit, refusal};
use crate::edit::apply;
use crate::error::{Code, Error, Result};
use crate::formats::{AttributeChanges, Formats, ModelRules};
use crate::model::{Attributes, Catalog, DType, Tensor};
use crate::read::Reading;
use crate::read::staging::stored_bytes;
use crate::write::WriteFormat;

/// A conversion. Its methods are called in their order here; after [`Conversion::examine`] it is complete.
#[derive(Default)]
pub struct Conversion {
    /// The tensors as the target has them, instead of those of the file.
    pub derived: Option<Arc<Catalog>>,
    /// Ordinals of tensors that stay float32, whatever the others are cast to.
    pub float32: Vec<u32>,
    /// Why the source is not a checkpoint.
    pub lack: Option<Cow<'static, str>>,
    pub casts: Arc<Casts>,
    pub selection: Arc<Selection>,
    /// Positions and ordinals of the tensors whose data must be checked.
    pub inspected: Arc<(Vec<usize>, Vec<u32>)>,
    /// What the target cannot hold, by position.
    pub refused: Vec<(usize, Error)>,
    /// Why it cannot hold the file's own attributes.
    pub attributes: Option<Error>,
    /// The attributes that it holds of those, if some are left out.
    pub fitted: Option<Attributes>,
    /// Tensors that are written without their attributes, by position, and why.
    pub without_attributes: Vec<(usize, Error)>,
    /// The programs that can read the file.
    pub readers: Vec<&'static str>,
}

/// The sizes of tensors that were examined.
pub struct Examined {
    /// Stored bytes of all.
    pub bytes: u64,
    /// Stored bytes of those whose data must be checked.
    pub inspected_bytes: u64,
    /// Whether the sizes of all as the target has them are known.
    pub is_sized: bool,
}

impl Conversion {
    /// Casts single tensors. Those of a checkpoint that stay float32 become nothing else.
    pub fn cast(&mut self, catalog: &Catalog, wanted: &[(u32, DType, DType)]) -> Result<()> {
        let casts = Arc::make_mut(&mut self.casts);
        for &(ordinal, from, to) in wanted {
            let name = catalog.tensor(ordinal as usize).map_or("", |tensor| tensor.name());
            casts.cast_single(ordinal, from, to).map_err(|error| error.tensor(name))?;
        }
        for &ordinal in &self.float32 {
            if let Some(dtype) = catalog.tensor(ordinal as usize).and_then(Tensor::dtype) {
                casts.cast_single(ordinal, dtype, DType::Float32)?;
            }
        }
        Ok(())
    }

    /// Determines what the format says of the model, with attributes instead of those of the source, and changes of either: which programs
    /// can use the file. Returns whether the source is a file of the format whose attributes say which model it is. Fails with
    /// `ZT_INVALID_ARG` if the attributes do not say so, unless `is_any` is set, or the source is a file of the format that does not either.
    pub fn model(
        &mut self,
        catalog: &Catalog,
        format: &'static WriteFormat,
        own: Option<&Attributes>,
        changes: &AttributeChanges,
        is_any: bool,
    ) -> Result<bool> {
        // Other formats do not depend on the attributes, and they may be a million.
        self.readers = format.readers.to_vec();
        let Some(rules) = format.model else { return Ok(false) };
        let mut attributes = own.unwrap_or(&catalog.attributes).values()?.into_owned();
        apply(&mut attributes, changes.clone());
        let attributes = &*attributes;
        let is_same = self.derived.is_none() && catalog.container.name() == format.format;
        let checked = (rules.check)(attributes);
        if let Err(error) = &checked
            && !is_any
            && !(is_same && (rules.check)(&catalog.attributes.values()?).is_err())
        {
            let reason = self.lack.as_deref().map(|lack| format!(": {lack}")).unwrap_or_default();
            let message = format!("{}{reason}", error.message());
            let error = error.reworded(message).hint("metadata", ". State it in option metadata");
            return Err(error.hint("checkpoint", ", or copy the tensors all the same with checkpoint: false"));
        }
        let names: Vec<_> =
            self.selection.tensors(catalog).map(|(at, tensor)| self.selection.name(at, tensor)).collect();
        self.readers.retain(|reader| (rules.is_read_by)(reader, attributes, &names));
        if self.derived.is_none() && checked.is_ok() {
            self.keep_float32(catalog, rules, is_same)?;
        }
        Ok(is_same && checked.is_ok())
    }

    /// Casts the tensors that a model has as float32, unless they come from the same format and no option casts them.
    fn keep_float32(&mut self, catalog: &Catalog, rules: &ModelRules, is_same: bool) -> Result<()> {
        let casts = Arc::make_mut(&mut self.casts);
        for (at, tensor) in self.selection.tensors(catalog) {
            if !(rules.is_float32)(&self.selection.name(at, tensor), tensor.shape()) {
                continue;
            }
            let floats = [DType::Float64, DType::Float32, DType::Float16, DType::BFloat16];
            let Some(dtype) = tensor.dtype().filter(|dtype| floats.contains(dtype)) else { continue };
            let ordinal = u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX);
            self.float32.push(ordinal);
            if !is_same || casts.target(tensor, dtype) != dtype {
                casts.cast_single(ordinal, dtype, DType::Float32)?;
            }
        }
        Ok(())
    }

    /// Returns the attribute that states the type of most bytes, and its value if there is one; `None` if it is that of the source.
    pub fn stated_type(
        &self,
        catalog: &Catalog,
        formats: Formats,
    ) -> Result<Option<(&'static str, Option<u32>)>> {
        let Some(rules) = self.stating(catalog, formats)? else { return Ok(None) };
        let mut bytes: HashMap<&str, u64> = HashMap::new();
        let mut is_changed = self.derived.is_some();
        for (_, tensor) in self.selection.tensors(catalog) {
            let (layout, dtype, length) = super::written_as(tensor, &self.casts)?;
            is_changed |= (layout, dtype) != (tensor.layout_name(), tensor.dtype());
            // Norms and biases are float32 in any model.
            if tensor.shape().len() > 1 {
                let kind = dtype.filter(|_| layout == "dense").map_or(layout, |dtype| dtype.name());
                let total = bytes.entry(kind).or_default();
                *total = total.saturating_add(length);
            }
        }
        let max = bytes.into_iter().max_by(|a, b| (a.1, a.0).cmp(&(b.1, b.0)));
        let value = max.and_then(|(kind, _)| (rules.type_number)(kind));
        Ok(is_changed.then_some((rules.type_key, value)))
    }

    /// Returns the rules of the format whose attribute of types the file has.
    fn stating(&self, catalog: &Catalog, formats: Formats) -> Result<Option<&'static ModelRules>> {
        let all = formats.iter().flat_map(|format| format.writes).filter_map(|writing| writing.model);
        for rules in all {
            if self.derived.is_some() || catalog.attributes.has(rules.type_key)? {
                return Ok(Some(rules));
            }
        }
        Ok(None)
    }

    /// Determines from the index what a format cannot hold. `strict`: attributes that it cannot hold are a reason to refuse a tensor.
    pub fn examine(
        &mut self,
        reading: Reading<'_>,
        (format, canonical): (&'static WriteFormat, bool),
        strict: bool,
    ) -> Result<Examined> {
        let casts = Arc::make_mut(&mut self.casts);
        let (catalog, selection) = (reading.catalog, Arc::clone(&self.selection));
        if let Some(instead) = catalog.instead() {
            let message = format!("the source has no tensors to write: {}", instead.message);
            return Err(Error::new(Code::NotFound, message));
        }
        selection.check_names(catalog)?;
        let mut doubles = selection.doubles(catalog, format);
        let unsupported = format.model.filter(|_| self.derived.is_some()).map(|rules| rules.unsupported);
        let (mut positions, mut ordinals) = (Vec::new(), Vec::new());
        let (mut bytes, mut inspected_bytes, mut is_sized) = (0_u64, 0_u64, true);
        for (at, tensor) in selection.tensors(catalog) {
            if at % 4096 == 0 {
                reading.watch.stop.check()?;
            }
            if let Some(message) = casts.tensor(tensor).zip(unsupported).and_then(|(dtype, of)| of(dtype)) {
                return Err(Error::new(Code::BadDtype, message).tensor(tensor.name()));
            }
            let stored = stored_bytes(tensor);
            bytes = bytes.saturating_add(stored);
            let name = selection.name(at, tensor);
            let refusal =
                |casts: &Casts| refusal(catalog, tensor, &name, Target { format, canonical, casts });
            let mut refused = refusal(casts);
            if !strict
                && casts.attributes(tensor).is_some()
                && let Some(error) = refused.take()
            {
                casts.set_bare(tensor, true);
                refused = refusal(casts);
                if refused.is_none() {
                    self.without_attributes.push((at, error));
                } else {
                    casts.set_bare(tensor, false);
                }
            }
            if let Some(error) = doubles.remove(&at).or(refused) {
                self.refused.push((at, error));
                continue;
            }
            is_sized &= super::is_sized(tensor, casts);
            if depends_on_data(tensor, Target { format, canonical, casts }) {
                positions.push(at);
                ordinals.extend(selection.ordinals().get(at));
                inspected_bytes = inspected_bytes.saturating_add(stored);
            }
        }
        self.attributes = attribute_refusal(&catalog.attributes, format, canonical);
        let examined = Examined { bytes, inspected_bytes, is_sized };
        self.inspected = Arc::new((positions, ordinals));
        Ok(examined)
    }

    /// Determines what options change: whether a tensor is dequantized because of the option, or would be if it were not quantized; and the
    /// first of the keys to remove that the attributes do not have. `own`: attributes instead of those of the source.
    pub fn effects(
        &self,
        catalog: &Catalog,
        own: Option<&Attributes>,
        changes: &AttributeChanges,
    ) -> Result<(bool, Option<Value>)> {
        let dequantizes =
            self.selection.tensors(catalog).any(|(_, tensor)| self.casts.would_dequantize(tensor));
        let attributes = own.unwrap_or(&catalog.attributes);
        for (key, value) in changes {
            let has = match key.as_text() {
                _ if value.is_some() => true,
                Some(text) => attributes.has(text)?,
                None => attributes.values()?.iter().any(|(own, _)| own == key),
            };
            if !has {
                return Ok((dequantizes, Some(key.clone())));
            }
        }
        Ok((dequantizes, None))
    }

    /// Keeps the attributes that the target holds, for the writer. Returns the keys of the others, and why it holds none of them.
    pub fn fit(
        &mut self,
        catalog: &Catalog,
        format: &'static WriteFormat,
        canonical: bool,
    ) -> Result<(Vec<Value>, Option<Error>)> {
        let fitted = fit(&catalog.attributes, format, canonical)?;
        self.fitted = Some(fitted.held);
        Ok((fitted.left_out, fitted.refused))
    }

    /// Returns the attributes that are written unless others are given: those that the target holds, of the source or its checkpoint.
    pub fn attributes_of(&self, catalog: &Catalog) -> Attributes {
        let own = || self.derived.as_deref().unwrap_or(catalog).attributes.clone();
        self.fitted.clone().unwrap_or_else(own)
    }

    /// Returns the positions of the tensors that cannot be held, in ascending order.
    pub fn left_out(&self) -> Vec<usize> {
        let mut positions: Vec<_> = self.refused.iter().map(|&(position, _)| position).collect();
        positions.arrange();
        positions
    }
}
