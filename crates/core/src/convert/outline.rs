//! The tensors of a conversion as they will be written, from the index alone.
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ops::Range;

use super::{Casts, Selection, announced, is_as_planned, spec};
use crate::error::{Code, Error, Result};
use crate::limits::FILES;
use crate::model::{Catalog, Component, DType, Tensor};
use crate::read::Reading;
use crate::write::{Division, Spec, WriteFormat};

/// A tensor as it will be written.
pub struct Outline<'a> {
    /// The name of the layout.
    pub layout: &'a str,
    pub dtype: Option<DType>,
    /// The bytes of each component, before compression.
    pub lengths: Vec<u64>,
}

impl Outline<'_> {
    /// Returns the bytes of its components, before compression.
    pub fn byte_length(&self) -> u64 {
        self.lengths.iter().copied().fold(0, u64::saturating_add)
    }
}

/// Determines how a tensor will be written.
pub fn outline<'a>(reading: Reading<'a>, tensor: Tensor<'a>, casts: &'a Casts) -> Result<Outline<'a>> {
    let parts: Vec<&Component> = tensor.components().iter().collect();
    let components = announced(reading, tensor, &parts, casts)?;
    let (layout, dtype) = written_form(tensor, casts);
    let lengths = components.iter().map(|&(.., length)| length).collect();
    Ok(Outline { layout, dtype, lengths })
}

/// Returns the layout and the dtype that a tensor is written with.
fn written_form<'a>(tensor: Tensor<'a>, casts: &'a Casts) -> (&'a str, Option<DType>) {
    let Spec { layout, dtype, .. } = spec(tensor, "", casts, None);
    (layout, dtype)
}

/// One file of a set, and the tensors that go into it.
#[derive(Debug, Default)]
pub struct FilePlan {
    /// Their positions among the tensors that are written.
    pub positions: Range<usize>,
    /// Their ordinals in the source, with those of tensors that are left out: each of these belongs to one file as well.
    pub ordinals: Vec<u32>,
    /// The new names of tensors, by their ordinals.
    pub renamed: Vec<(u32, String)>,
    /// Bytes of the tensors.
    pub byte_length: u64,
}

/// Divides tensors among files of at most `largest` bytes, which are written independently. `is_left_out` tells by ordinals which tensors are
/// not written. Returns at least one file.
///
/// Fails with `ZT_LIMIT` for more files than can be opened, and for a file whose index would be longer than readers accept.
pub fn divide(
    reading: Reading<'_>,
    selection: &Selection,
    casts: &Casts,
    is_left_out: impl Fn(u32) -> bool,
    (format, alignment, largest): (&'static WriteFormat, u64, u64),
) -> Result<Vec<FilePlan>> {
    let mut division = Division::of_files(format, alignment, largest);
    let mut files = vec![FilePlan::default()];
    let (mut position, mut header) = (0, 0);
    for (at, tensor) in selection.tensors(reading.catalog) {
        if at % 4096 == 0 {
            reading.watch.stop.check()?;
        }
        let ordinal = u32::try_from(tensor.ordinal()).unwrap_or(u32::MAX);
        let name = selection.name(at, tensor);
        let mut byte_length = 0;
        if !is_left_out(ordinal) {
            let outline = outline(reading, tensor, casts)?;
            byte_length = outline.byte_length();
            if division.next(&name, &outline.lengths) as usize == files.len() {
                files.push(FilePlan { positions: position..position, ..FilePlan::default() });
                header = 0;
            }
            position += 1;
            if let Some(bound) = format.header {
                bound.add(&mut header, &name)?;
            }
        }
        let Some(file) = files.last_mut() else { continue };
        file.positions.end = position;
        file.byte_length = file.byte_length.saturating_add(byte_length);
        file.ordinals.push(ordinal);
        if *name != *tensor.name() {
            file.renamed.push((ordinal, name.into_owned()));
        }
    }
    if files.len() > FILES {
        let message = format!("a set of {} files, and at most {FILES} can be opened", files.len());
        return Err(Error::new(Code::Limit, message).option("maxShardBytes"));
    }
    Ok(files)
}

/// The tensors that one file of a set was planned to have, by their positions in a selection.
pub struct Planned<'a> {
    /// The source.
    pub catalog: &'a Catalog,
    pub selection: &'a Selection,
    pub casts: &'a Casts,
    pub positions: Range<usize>,
    /// Positions of tensors that are not written, ascending.
    pub left_out: &'a [usize],
    /// Positions of tensors of which only the data says whether the target can hold them, ascending.
    pub inspected: &'a [usize],
    pub format: &'static WriteFormat,
    /// Whether the file has its tensors in this order.
    pub is_ordered: bool,
}

impl Planned<'_> {
    /// Checks that a file has exactly these tensors: names, layouts, shapes and dtypes. `skipped` has the names in the source of tensors
    /// that its author has left out. Returns the number of tensors that it should have.
    pub fn check(
        &self,
        file: &Catalog,
        skipped: &HashSet<&str>,
    ) -> Result<std::result::Result<usize, Mismatch>> {
        let Self { catalog, selection, casts, .. } = self;
        let (mut count, mut excused) = (0, HashSet::new());
        for at in self.positions.clone() {
            let Some(tensor) = selection.tensor(catalog, at) else { continue };
            let own = tensor.name();
            if self.left_out.binary_search(&at).is_ok() {
                excused.insert(own);
                continue;
            }
            let name = selection.name(at, tensor);
            let wrong = |what| {
                let tensor = name.clone().into_owned();
                Ok(Err(Mismatch { code: Code::BadIndex, what, tensor }))
            };
            let Some(found) = file.find(&name) else {
                if skipped.contains(own) && self.inspected.binary_search(&at).is_ok() {
                    excused.insert(own);
                    continue;
                }
                let what = format!("has no tensor {name:?}");
                return Ok(Err(Mismatch { code: Code::NotFound, what, tensor: name.into_owned() }));
            };
            if skipped.contains(own) {
                return wrong(format!("has the tensor {name:?}, which its result lists as skipped"));
            }
            if self.is_ordered && found != count {
                return wrong(format!("has the tensor {name:?} at another position than planned"));
            }
            count += 1;
            let (layout, dtype) = written_form(tensor, casts);
            let Some(found) = file.tensor(found) else { continue };
            // Other layouts say in their parameters what their elements are.
            let has_dtype = matches!(layout, "dense" | "sparse_csr" | "sparse_coo");
            let is_same = found.layout_name() == layout
                && found.shape() == tensor.shape()
                && (!has_dtype || found.dtype() == dtype);
            if !is_same {
                return wrong(format!(
                    "has the tensor {name:?} with a different layout, shape or dtype than planned"
                ));
            }
            // In files with numbers, the parameters of a tensor follow from its type.
            if !self.is_ordered && !is_as_planned((catalog, tensor), (file, found), casts, self.format)? {
                return wrong(format!(
                    "has the tensor {name:?} with other attributes or components than planned"
                ));
            }
        }
        let Some(&name) = skipped.iter().find(|&name| !excused.contains(name)) else { return Ok(Ok(count)) };
        let what = format!("has a result that lists as skipped {name:?}, which is none of its tensors");
        Ok(Err(Mismatch { code: Code::BadIndex, what, tensor: name.to_owned() }))
    }
}

/// Why a file does not have the planned tensors.
#[derive(Debug)]
pub struct Mismatch {
    pub code: Code,
    /// A part of a sentence whose subject is the file.
    pub what: String,
    pub tensor: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    /// The result of a check of tensors "0" to "3", of which "1" is left out, and "2" may be.
    fn checked(file: &Catalog, is_ordered: bool, skipped: &[&str]) -> std::result::Result<usize, String> {
        check(file, &Casts::default(), is_ordered, skipped)
    }

    fn check(
        file: &Catalog,
        casts: &Casts,
        is_ordered: bool,
        skipped: &[&str],
    ) -> std::result::Result<usize, String> {
        let source = fixtures::row(4, 16);
        let mut selection = Selection::default();
        selection.add(&[0, 1, 2, 3], Vec::new());
        let planned = Planned {
            catalog: &source,
            selection: &selection,
            casts,
            positions: 0..4,
            left_out: &[1],
            inspected: &[2],
            format: WriteFormat::ZT12,
            is_ordered,
        };
        planned.check(file, &skipped.iter().copied().collect()).unwrap().map_err(|mismatch| mismatch.what)
    }

    #[test]
    fn a_file_has_the_planned_tensors_unless_only_the_data_speaks_against_one() {
        let all = fixtures::row(4, 16);
        assert_eq!(checked(&all, false, &[]), Ok(3));
        assert_eq!(checked(&all, false, &["1"]), Ok(3), "it is left out in any case");
        let error = |what: &str| Err(what.to_owned());
        assert_eq!(checked(&all, true, &[]), error("has the tensor \"2\" at another position than planned"));
        let listed = error("has the tensor \"2\", which its result lists as skipped");
        assert_eq!(checked(&all, false, &["2"]), listed);
        let two = fixtures::row(2, 16);
        assert_eq!(checked(&two, false, &["3"]), error("has no tensor \"2\""));
        assert_eq!(checked(&two, false, &["2"]), error("has no tensor \"3\""));
        let other = error("has a result that lists as skipped \"x\", which is none of its tensors");
        assert_eq!(checked(&all, false, &["x"]), other);
        let casts = Casts::new(vec![(DType::Uint8, DType::Float32)]).unwrap();
        let different = "has the tensor \"0\" with a different layout, shape or dtype than planned";
        assert_eq!(check(&all, &casts, false, &[]), error(different));
    }
}
