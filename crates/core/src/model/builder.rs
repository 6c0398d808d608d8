//! Builds a [`Catalog`] tensor by tensor, rejecting duplicate names.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use super::disjoint::Disjointness;
use super::{
    Attributes, Blob, Catalog, Component, Container, DType, Damage, Data, Encoding, Encodings, Entry, Filter,
    Label, Labels, Layout, NameKeys, Named, Section, SetPart, Shard, Span, Warning,
};
use crate::checked::exact;
use crate::error::{Code, Error, MESSAGE, Result, short};
use crate::limits::{self, Limits};

/// The description of one tensor by a parser.
pub struct NewTensor<'a> {
    pub name: &'a str,
    pub shape: &'a [u64],
    pub layout: Layout,
    pub dtype: Option<DType>,
    pub components: Vec<Component>,
    pub attributes: Option<Attributes>,
}

/// A catalog under construction.
pub struct Builder {
    catalog: Catalog,
    shape_ids: HashMap<Box<[u64]>, u32>,
    last_shape: u32,
    limits: Limits,
    unlisted_warnings: u64,
    /// The first damage among them.
    unlisted_damage: Option<Damage>,
    warning_bytes: usize,
    /// The emptied list of the last tensor, reused for the next: an allocation per tensor takes a tenth of the time to open a file.
    unused: Vec<Component>,
    /// Estimated number of tensors.
    expected: usize,
    disjointness: Disjointness,
}

impl Builder {
    pub fn new(container: Container, limits: &Limits) -> Self {
        Self {
            catalog: Catalog {
                container,
                version: None,
                generator: None,
                attributes: Attributes::default(),
                warnings: Vec::new(),
                shards: Vec::new(),
                part: None,
                is_table: false,
                sections: Vec::new(),
                names: String::new(),
                entries: Vec::new(),
                components: Vec::new(),
                shapes: Vec::new(),
                labels: Labels::default(),
                encodings: Encodings::default(),
                table: HashTable::new(),
                hasher: NameKeys::new(),
            },
            shape_ids: HashMap::new(),
            last_shape: 0,
            limits: *limits,
            unlisted_warnings: 0,
            unlisted_damage: None,
            warning_bytes: 0,
            unused: Vec::new(),
            expected: 0,
            disjointness: Disjointness::default(),
        }
    }

    /// Takes over the labels of another builder, which stay valid here.
    #[must_use]
    pub fn with_labels_of(mut self, other: &Self) -> Self {
        self.catalog.labels = other.catalog.labels.clone();
        self
    }

    /// Reserves capacity for this many tensors of one component, as an estimate: untouched memory costs nothing, and without it the lists
    /// are copied as they grow. Failures are ignored.
    pub fn reserve(&mut self, tensors: usize) {
        let tensors = tensors.min(limits::RESERVED);
        self.expected = tensors;
        let _ = self.catalog.entries.try_reserve(tensors);
        let _ = self.catalog.components.try_reserve(tensors);
        let _ = self.catalog.table.try_reserve(tensors, |named| named.spread());
    }

    /// Returns an empty list for [`NewTensor::components`], reusing the memory of the last one.
    pub fn no_components(&mut self) -> Vec<Component> {
        std::mem::take(&mut self.unused)
    }

    /// Returns the catalog so far.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn set_version(&mut self, version: impl Into<String>) {
        self.catalog.version = Some(version.into());
    }

    pub fn set_generator(&mut self, generator: impl Into<String>) {
        self.catalog.generator = Some(generator.into());
    }

    /// Sets the attributes of the file.
    pub fn set_attributes(&mut self, attributes: Attributes) {
        self.catalog.attributes = attributes;
    }

    /// Records that the file belongs to a set whose other files are not in this catalog.
    pub fn set_part(&mut self, part: SetPart) {
        self.catalog.part = Some(part);
    }

    /// States that the tensors are columns of a table.
    pub fn set_table(&mut self) {
        self.catalog.is_table = true;
    }

    /// Adds a part of the file that has one digest for all tensors in it.
    pub fn add_section(&mut self, section: Section) {
        self.catalog.sections.push(section);
    }

    pub fn set_shards(&mut self, shards: Vec<Shard>) {
        self.catalog.shards = shards;
    }

    pub fn intern(&mut self, text: &str) -> Label {
        self.catalog.labels.intern(text)
    }

    /// Returns the encoding for an unsupported name.
    pub fn unknown_encoding(&mut self, name: &str) -> Encoding {
        let name = self.intern(name);
        self.encoding(&[Filter::named(name)], false)
    }

    /// Returns the encoding of a list of filters, in the order in which they were applied for writing. `known` states whether they are
    /// supported.
    pub fn encoding(&mut self, filters: &[Filter], known: bool) -> Encoding {
        self.catalog.encodings.intern(filters, known)
    }

    pub fn label(&self, label: Label) -> &str {
        self.catalog.label(label)
    }

    /// Adds a warning; beyond [`limits::WARNINGS`] or [`limits::WARNING_BYTES`] only their number is recorded.
    pub fn warn(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        tensor: Option<&str>,
        role: Option<&str>,
    ) {
        self.warn_damage(code, message, tensor, role, None);
    }

    /// Adds a warning about damage that is visible only in the index, which verification reports as a failure. Damage that reading a tensor
    /// detects needs only a warning.
    pub fn damaged(&mut self, code: &'static str, error: &Error, message: String, tensor: Option<&str>) {
        let damage = Damage { code: error.code(), offset: error.offset() };
        self.warn_damage(code, message, tensor, None, Some(damage));
    }

    fn warn_damage(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        tensor: Option<&str>,
        role: Option<&str>,
        damage: Option<Damage>,
    ) {
        let message = short(&message.into(), MESSAGE).into_owned();
        let bytes = message.len() + tensor.map_or(0, str::len) + role.map_or(0, str::len);
        if self.catalog.warnings.len() >= limits::WARNINGS
            || self.warning_bytes + bytes > limits::WARNING_BYTES
        {
            self.unlisted_warnings += 1;
            self.unlisted_damage = self.unlisted_damage.or(damage);
            return;
        }
        self.warning_bytes += bytes;
        self.catalog.warnings.push(Warning {
            code,
            message,
            tensor: tensor.map(str::to_owned),
            component: role.map(str::to_owned),
            path: None,
            damage,
        });
    }

    /// Adds a warning about one of several files.
    pub(super) fn warn_of(&mut self, path: &str, warning: Warning) {
        let Warning { code, message, tensor, component, damage, .. } = warning;
        let listed = self.catalog.warnings.len();
        self.warn_damage(code, message, tensor.as_deref(), component.as_deref(), damage);
        if let Some(warning) = self.catalog.warnings.get_mut(listed) {
            warning.path = Some(path.to_owned());
        }
    }

    /// Returns the number of tensors so far.
    pub fn len(&self) -> usize {
        self.catalog.len()
    }

    pub fn is_empty(&self) -> bool {
        self.catalog.is_empty()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the ordinal of the tensor named `name`.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.catalog.find(name)
    }

    /// Returns whether all blobs are known to be identical or disjoint, including `other`. If unknown, a full check is needed.
    pub fn is_known_disjoint(&mut self, other: Option<Span>) -> bool {
        self.disjointness.is_sure(other)
    }

    /// Records the blobs of another tensor.
    fn follow(&mut self, components: &[Component]) {
        let span = |component: &Component| match &component.data {
            Data::Blob(blob) => Some(Blob::span(blob)),
            _ => None,
        };
        for (at, component) in components.iter().enumerate() {
            match &component.data {
                Data::Blob(blob) => {
                    let before = components.get(..at).unwrap_or_default();
                    let all = self.catalog.components.iter().chain(before);
                    self.disjointness.add(Blob::span(blob), self.expected, || all.filter_map(span));
                }
                Data::Inline(_) | Data::Unread { .. } => {}
                Data::Grid(..) | Data::Pieces(_) => self.disjointness = Disjointness::Unknown,
            }
        }
    }

    /// Checks a shape like [`Builder::add_tensor`].
    pub fn check_shape(&mut self, dims: &[u64]) -> Result<()> {
        self.shape(dims).map(drop)
    }

    /// Adds a tensor after checking its name and shape. The rules of the layout are checked by `layouts::check`. After an error no
    /// tensor is added, so that a parser may report it as damaged and continue.
    pub fn add_tensor(&mut self, mut new: NewTensor<'_>) -> Result<()> {
        let name = new.name;
        let shape = self.shape(new.shape).map_err(|error| error.tensor(name))?;
        let Catalog { table, hasher, names, entries, components, .. } = &mut self.catalog;
        let ordinal = small(entries.len(), "the number of tensors")?;
        if names.len() + name.len() > limits::NAMES_BYTES {
            let message = format!("the names of all tensors exceed {} bytes in total", limits::NAMES_BYTES);
            return Err(Error::new(Code::Limit, message));
        }
        if new.components.len() > limits::COMPONENTS {
            let message = format!("the tensor has more than {} components", limits::COMPONENTS);
            return Err(Error::new(Code::Limit, message).of_item().tensor(name));
        }
        let entry = Entry {
            name_end: small(names.len() + name.len(), "the length of all names")?,
            shape,
            layout: new.layout,
            dtype: new.dtype,
            first_component: small(components.len(), "the number of components")?,
            components: small(new.components.len(), "the number of components")?,
            attributes: new.attributes.filter(|own| !own.is_empty()).map(Box::new),
        };
        let name_of = |ordinal: u32| {
            let end = entries[ordinal as usize].name_end as usize;
            let start = if ordinal == 0 { 0 } else { entries[ordinal as usize - 1].name_end as usize };
            &names[start..end]
        };
        let named = Named::new(hasher, name, ordinal);
        let same = |other: &Named| other.hash == named.hash && name_of(other.ordinal) == name;
        match table.entry(named.spread(), same, |other| other.spread()) {
            Slot::Occupied(_) => {
                return Err(Error::new(Code::BadIndex, "the name occurs twice in the index")
                    .tensor(name)
                    .rule("unique names"));
            }
            Slot::Vacant(vacant) => vacant.insert(named),
        };
        names.push_str(name);
        entries.push(entry);
        for part in &mut new.components {
            // The layout's own rules are checked by `layouts::check`.
            if new.layout.roles().is_none_or(|roles| !roles.contains(&part.role)) {
                self.check_elements(name, part);
            }
        }
        self.follow(&new.components);
        self.catalog.components.append(&mut new.components);
        self.unused = new.components;
        Ok(())
    }

    /// Removes the dtype of a component whose bytes are not whole elements: as elements, the last bytes would be left out.
    fn check_elements(&mut self, name: &str, part: &mut Component) {
        let Some(what) = part.partial_element() else { return };
        part.dtype = None;
        let (message, role) =
            (format!("{what}; the component is readable as bytes"), self.label(part.role).to_owned());
        self.warn("ZT_WARN_UNKNOWN_TYPE", message, Some(name), Some(&role));
    }

    pub fn finish(mut self) -> Catalog {
        if self.unlisted_warnings > 0 {
            let message = format!("{} more warnings are not listed", self.unlisted_warnings);
            self.catalog.warnings.push(Warning {
                code: "ZT_WARN_TRUNCATED_LIST",
                message,
                tensor: None,
                component: None,
                path: None,
                damage: self.unlisted_damage.map(|damage| Damage { offset: None, ..damage }),
            });
        }
        self.catalog
    }

    /// Returns the id of a shape. Adjacent tensors often share their shape.
    fn shape(&mut self, dims: &[u64]) -> Result<u32> {
        if self.catalog.shapes.get(self.last_shape as usize).is_some_and(|last| **last == *dims) {
            return Ok(self.last_shape);
        }
        if let Some(&id) = self.shape_ids.get(dims) {
            self.last_shape = id;
            return Ok(id);
        }
        if dims.len() > self.limits.max_rank as usize {
            let message =
                format!("{} dimensions, more than the {} allowed", dims.len(), self.limits.max_rank);
            return Err(Error::new(Code::Limit, message).option("maxRank").of_item());
        }
        for &dim in dims {
            exact(dim, "a dimension")?;
        }
        let id = small(self.catalog.shapes.len(), "the number of shapes")?;
        self.catalog.shapes.push(Box::from(dims));
        self.shape_ids.insert(Box::from(dims), id);
        self.last_shape = id;
        Ok(id)
    }
}

fn small(value: usize, what: &str) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| Error::new(Code::Limit, format!("{what} is {value}, which exceeds 2^32 - 1")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DType;

    #[test]
    fn a_rejected_tensor_leaves_no_trace() {
        let mut builder = Builder::new(Container::named("zt"), &Limits::default());
        let data = |at| vec![Component::raw(Label::DATA, Some(DType::Uint8), at, 1)];
        let add = |builder: &mut Builder, name, components| {
            let (layout, dtype) = (Layout::Dense, Some(DType::Uint8));
            builder.add_tensor(NewTensor { name, shape: &[1], layout, dtype, components, attributes: None })
        };
        add(&mut builder, "a", data(0)).unwrap();
        assert_eq!(add(&mut builder, "a", data(1)).unwrap_err().code(), Code::BadIndex);
        let many = vec![Component::raw(Label::DATA, None, 2, 1); limits::COMPONENTS + 1];
        assert_eq!(add(&mut builder, "b", many).unwrap_err().code(), Code::Limit);
        add(&mut builder, "c", data(3)).unwrap();
        let catalog = builder.finish();
        let mut offsets = Vec::new();
        for tensor in catalog.iter() {
            offsets.extend(tensor.components().iter().map(Component::offset));
        }
        assert_eq!(catalog.iter().map(|tensor| tensor.name().to_owned()).collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(offsets, [0, 3]);
        assert_eq!((catalog.find("b"), catalog.find("c")), (None, Some(1)));
    }
}
