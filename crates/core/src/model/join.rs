//! Joins the catalogs of several files into one name space.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use ciborium::Value;

use super::{Attributes, Builder, Catalog, Container, Filter, Label, Layout, NewTensor};
use crate::error::{Code, Error, Result};
use crate::limits::Limits;
use crate::syntax::values::{Event, visit};

/// A catalog to be joined.
pub struct Joining {
    pub catalog: Catalog,
    /// The name of its own file 0 in messages.
    pub name: String,
    /// The number that its own file 0 gets; its other files follow.
    pub first_file: u32,
}

/// Names that two catalogs have both, by their positions: the first of them, and their number.
type Doubles = BTreeMap<(usize, usize), (String, u64)>;

/// Joins catalogs, with tensors in the order of the catalogs, and returns a problem for each pair that has tensors of the same name. The attributes are those of
/// the first file of a set, otherwise the entries with text keys that all catalogs agree on.
///
/// `is_stale` returns for a file and a tensor in it whether another file has the current version of the tensor: a stale tensor is omitted
/// with a warning.
pub fn join(
    parts: Vec<Joining>,
    limits: &Limits,
    is_stale: impl Fn(&str, &str) -> bool,
) -> Result<(Catalog, Vec<Error>)> {
    let mut builder =
        Builder::new(common(&parts, |catalog| catalog.container).unwrap_or(Container::MIXED), limits);
    if let Some(Some(version)) = common(&parts, |catalog| catalog.version.clone()) {
        builder.set_version(version);
    }
    if let Some(Some(generator)) = common(&parts, |catalog| catalog.generator.clone()) {
        builder.set_generator(generator);
    }
    builder.set_attributes(first_of_set(&parts).unwrap_or_else(|| shared_attributes(&parts)));
    let is_table = parts.iter().all(|part| part.catalog.is_table);
    let mut doubles = Doubles::new();
    // The first tensor and the name of each catalog.
    let mut starts: Vec<(usize, Rc<str>)> = Vec::new();
    for part in parts {
        let name = Rc::from(part.name);
        starts.push((builder.len(), Rc::clone(&name)));
        let Catalog { names, entries, components, shapes, labels, encodings, warnings, sections, .. } =
            part.catalog;
        for warning in warnings {
            builder.warn_of(&name, warning);
        }
        for mut section in sections {
            section.blob.file = section.blob.file.saturating_add(part.first_file);
            section.name = format!("{name}: {}", section.name);
            builder.add_section(section);
        }
        let map: Vec<Label> = labels.iter().map(|text| builder.intern(text)).collect();
        let label = |label: Label| map.get(label.id() as usize).copied().unwrap_or(label);
        let mut components = components.into_iter();
        let mut start = 0;
        for entry in entries {
            let end = entry.name_end as usize;
            let tensor = names.get(std::mem::replace(&mut start, end)..end).unwrap_or_default();
            let own = components.by_ref().take(entry.components as usize);
            let mut own: Vec<_> = own.collect();
            for component in &mut own {
                component.role = label(component.role);
                component.data.renumber(part.first_file, &mut |encoding| {
                    let filters = encodings.filters(encoding).iter();
                    let filters: Vec<_> =
                        filters.map(|filter| Filter { name: label(filter.name), ..filter.clone() }).collect();
                    builder.encoding(&filters, encoding.is_known())
                });
            }
            if is_stale(&name, tensor) {
                let message = format!("the index lists it in another file: the one in {name:?} is omitted");
                builder.warn("ZT_WARN_STALE", message, Some(tensor), None);
                continue;
            }
            if let Some(ordinal) = builder.find(tensor) {
                let first = starts.partition_point(|(start, _)| *start <= ordinal).checked_sub(1);
                let pair = (first.unwrap_or_default(), starts.len().saturating_sub(1));
                doubles.entry(pair).or_insert_with(|| (tensor.to_owned(), 0)).1 += 1;
                continue;
            }
            builder.add_tensor(NewTensor {
                name: tensor,
                shape: shapes.get(entry.shape as usize).map_or(&[], |shape| shape),
                layout: Layout::from_label(label(entry.layout.label())),
                dtype: entry.dtype,
                components: own,
                attributes: entry.attributes.map(|attributes| *attributes),
            })?;
        }
    }
    Ok((builder.finish(), problems(&doubles, &starts, is_table)))
}

/// Describes names that occur twice, with one problem for each pair of files.
fn problems(doubles: &Doubles, starts: &[(usize, Rc<str>)], is_table: bool) -> Vec<Error> {
    let name = |at: usize| starts.get(at).map_or("", |(_, name)| name);
    if let Some((_, (tensor, _))) = doubles.first_key_value().filter(|_| is_table) {
        let message = "the files have other rows of the same columns, as parts of one table, and rows are not joined: open each by itself";
        return vec![Error::new(Code::BadIndex, message).tensor(tensor)];
    }
    let problem = |(&(first, second), (tensor, count)): (&(usize, usize), &(String, u64))| {
        let (first, second) = (name(first), name(second));
        if first == second {
            let message = format!("{first:?} is in the list twice: list each file once");
            return Error::new(Code::BadIndex, message).tensor(tensor);
        }
        let others = match count - 1 {
            0 => String::new(),
            1 => ", and 1 more tensor of the same name".to_owned(),
            more => format!(", and {more} more tensors of the same names"),
        };
        let message = format!(
            "both {first:?} and {second:?} contain it{others}: convert one of the files with other names first"
        );
        Error::new(Code::BadIndex, message).option("rename").tensor(tensor)
    };
    doubles.iter().map(problem).collect()
}

fn first_of_set(parts: &[Joining]) -> Option<Attributes> {
    let first = |part: &&Joining| part.catalog.part.is_some_and(|part| part.number == 0);
    parts.iter().find(first).map(|part| part.catalog.attributes.clone())
}

/// Returns the value that all catalogs have in common.
fn common<T: PartialEq>(parts: &[Joining], of: impl Fn(&Catalog) -> T) -> Option<T> {
    let mut values = parts.iter().map(|part| of(&part.catalog));
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Returns the attributes that all catalogs agree on, computed on request.
fn shared_attributes(parts: &[Joining]) -> Attributes {
    let all: Vec<_> = parts.iter().map(|part| part.catalog.attributes.clone()).collect();
    if all.iter().any(Attributes::is_empty) {
        return Attributes::default();
    }
    Attributes::lazy(move |to| {
        let Some((first, others)) = all.split_first() else { return Ok(()) };
        let table = |other: &Attributes| {
            let entries = other.values()?.into_owned().into_iter();
            Ok(entries.filter_map(|(key, value)| Some((key.into_text().ok()?, value))).collect())
        };
        let others: Vec<HashMap<String, Value>> = others.iter().map(table).collect::<Result<_>>()?;
        for (key, value) in &*first.values()? {
            let everywhere = |key: &str| others.iter().all(|other| other.get(key) == Some(value));
            if let Some(text) = key.as_text().filter(|text| everywhere(text)) {
                to.visit(Event::Text(text))?;
                visit(value, to)?;
            }
        }
        Ok(())
    })
}
