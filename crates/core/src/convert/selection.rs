//! The tensors of a file to be converted, and their names.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::error::{Code, Error, Result, short};
use crate::formats::{Doubles, WriteFormat};
use crate::model::{Catalog, Tensor};
use crate::read::staging::stored_bytes;

/// Maximum characters of a name in a message.
const NAME: usize = 100;

/// The names of the tensors in the target.
#[derive(Clone, Debug, Default)]
enum Names {
    #[default]
    Own,
    /// A name for each tensor.
    Given(Vec<Box<str>>),
    /// Their positions, because the target has no names.
    Numbers,
}

/// Tensors by their ordinals, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    ordinals: Vec<u32>,
    names: Names,
}

impl Selection {
    /// Creates an empty selection for a target without names.
    pub fn numbered() -> Self {
        Self { names: Names::Numbers, ..Self::default() }
    }

    /// Adds tensors. `names` are their new names: one for each tensor, or none at all.
    pub fn add(&mut self, ordinals: &[u32], names: Vec<String>) {
        self.ordinals.extend_from_slice(ordinals);
        if names.is_empty() {
            return;
        }
        let names = names.into_iter().map(String::into_boxed_str);
        match &mut self.names {
            Names::Given(given) => given.extend(names),
            all => *all = Names::Given(names.collect()),
        }
    }

    pub fn ordinals(&self) -> &[u32] {
        &self.ordinals
    }

    pub fn len(&self) -> usize {
        self.ordinals.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Returns the name of the tensor at a position.
    pub fn name<'a>(&'a self, at: usize, tensor: Tensor<'a>) -> Cow<'a, str> {
        match &self.names {
            Names::Own => tensor.name().into(),
            Names::Given(names) => names.get(at).map_or(tensor.name(), |name| name).into(),
            Names::Numbers => at.to_string().into(),
        }
    }

    /// Returns the tensor at a position.
    pub fn tensor<'a>(&self, catalog: &'a Catalog, at: usize) -> Option<Tensor<'a>> {
        catalog.tensor(*self.ordinals.get(at)? as usize)
    }

    /// Returns the tensors with their positions.
    pub fn tensors<'a>(&'a self, catalog: &'a Catalog) -> impl Iterator<Item = (usize, Tensor<'a>)> + Clone {
        let tensors = self.ordinals.iter().enumerate();
        tensors.filter_map(|(at, &ordinal)| Some((at, catalog.tensor(ordinal as usize)?)))
    }

    /// Returns the total stored bytes of the tensors.
    pub fn stored(&self, catalog: &Catalog) -> u64 {
        self.tensors(catalog).map(|(_, tensor)| stored_bytes(tensor)).fold(0, u64::saturating_add)
    }

    /// Rejects duplicate names.
    pub fn check_names(&self, catalog: &Catalog) -> Result<()> {
        let Names::Given(names) = &self.names else { return Ok(()) };
        let mut seen = HashSet::with_capacity(names.len());
        for ((_, tensor), name) in self.tensors(catalog).zip(names) {
            if !seen.insert(name) {
                let message = format!("two tensors would be called {:?}", short(name, NAME));
                return Err(Error::new(Code::BadIndex, message).option("rename").tensor(tensor.name()));
            }
        }
        Ok(())
    }

    /// Returns the positions of tensors whose names readers of a format take for that of an earlier one, with the errors.
    pub fn doubles(&self, catalog: &Catalog, format: &WriteFormat) -> HashMap<usize, Error> {
        let (mut doubles, mut found) = (Doubles::default(), HashMap::new());
        if format.name_keys.is_none() {
            return found;
        }
        for (at, tensor) in self.tensors(catalog) {
            let name = self.name(at, tensor);
            match doubles.check(&name, format) {
                Ok(()) => doubles.add(&name, format),
                Err(error) => drop(found.insert(at, error.tensor(tensor.name()))),
            }
        }
        found
    }

    /// Removes the tensors at some positions, which must be ascending.
    pub fn leave_out(&mut self, positions: &[usize]) {
        fn left<T>(all: &mut Vec<T>, positions: &[usize]) {
            let (mut at, mut positions) = (0, positions.iter().copied().peekable());
            all.retain(|_| {
                let stays = positions.next_if_eq(&at).is_none();
                at += 1;
                stays
            });
        }
        left(&mut self.ordinals, positions);
        if let Names::Given(names) = &mut self.names {
            left(names, positions);
        }
    }

    /// Keeps only the tensors at positions from `from` to `end`.
    pub fn keep(&mut self, from: usize, end: usize) {
        fn kept<T>(all: &mut Vec<T>, from: usize, end: usize) {
            all.truncate(end);
            all.drain(..from.min(all.len()));
        }
        kept(&mut self.ordinals, from, end);
        if let Names::Given(names) = &mut self.names {
            kept(names, from, end);
        }
    }

    /// Reorders the tensors. `positions` are their current positions.
    pub fn arrange(&mut self, positions: &[usize]) {
        self.ordinals = positions.iter().filter_map(|&at| self.ordinals.get(at).copied()).collect();
        if let Names::Given(names) = &mut self.names {
            *names = positions.iter().filter_map(|&at| names.get_mut(at).map(std::mem::take)).collect();
        }
    }

    /// Sorts the tensors in the order of canonical files, by the bytes of the names, so that blobs need not be moved at
    /// the end.
    pub fn sort(&mut self, catalog: &Catalog) {
        let own = |ordinal: u32| catalog.tensor(ordinal as usize).map_or("", Tensor::name);
        match &mut self.names {
            Names::Own => self.ordinals.arrange_by(|&a, &b| own(a).cmp(own(b))),
            Names::Given(names) => {
                let mut all: Vec<_> =
                    std::mem::take(names).into_iter().zip(self.ordinals.drain(..)).collect();
                all.arrange();
                (*names, self.ordinals) = all.into_iter().unzip();
            }
            Names::Numbers => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixtures;

    fn names(selection: &Selection, catalog: &Catalog) -> Vec<String> {
        selection.tensors(catalog).map(|(at, tensor)| selection.name(at, tensor).into_owned()).collect()
    }

    #[test]
    fn names_are_original_given_or_positions() {
        let catalog = fixtures::row(20, 16);
        let mut own = Selection::default();
        own.add(&[2, 10], Vec::new());
        own.add(&[1], Vec::new());
        assert_eq!(names(&own, &catalog), ["2", "10", "1"]);
        own.sort(&catalog);
        assert_eq!(own.ordinals(), [1, 10, 2]);
        assert_eq!(own.stored(&catalog), 48);

        let mut given = Selection::default();
        given.add(&[2, 10], vec!["b".into(), "a".into()]);
        given.add(&[1], vec!["c".into()]);
        given.leave_out(&[1]);
        assert_eq!(names(&given, &catalog), ["b", "c"]);
        given.add(&[7], vec!["a".into()]);
        given.sort(&catalog);
        assert_eq!(names(&given, &catalog), ["a", "b", "c"]);
        assert_eq!(given.ordinals(), [7, 2, 1]);
        given.keep(1, 3);
        assert_eq!(names(&given, &catalog), ["b", "c"]);
        given.keep(0, 1);
        assert_eq!((names(&given, &catalog), given.ordinals()), (vec!["b".to_owned()], &[2][..]));
        given.keep(5, 3);
        assert!(given.is_empty());

        let mut numbered = Selection::numbered();
        numbered.add(&[5, 6, 7, 8], Vec::new());
        numbered.leave_out(&[0, 2]);
        assert_eq!(names(&numbered, &catalog), ["0", "1"]);
        assert_eq!(numbered.ordinals(), [6, 8]);
    }

    #[test]
    fn duplicate_names_are_rejected() {
        let catalog = fixtures::row(3, 16);
        let mut selection = Selection::default();
        selection.add(&[0, 1, 2], vec!["a".into(), "b".into(), "a".into()]);
        let error = selection.check_names(&catalog).unwrap_err();
        assert_eq!((error.code(), error.tensor_name()), (Code::BadIndex, Some("2")));
    }
}
