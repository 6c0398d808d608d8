//! Suggests similar names in the error for a missing one.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use crate::error::{Code, Error};
use crate::model::Catalog;

/// Maximum names considered; beyond that a typing mistake is not worth the time.
const NAMES: usize = 50_000;
/// Maximum characters compared of each name.
const LENGTH: usize = 128;
/// Maximum character pairs compared in total, some 50 ms: there may be many long, similar names.
const PAIRS: usize = 1 << 25;
/// Maximum suggestions.
const COUNT: usize = 3;

/// Returns up to three names of the catalog, closest first: those that contain `wanted` or are contained in it, or that differ by few
/// edits.
pub fn to<'c>(catalog: &'c Catalog, wanted: &str) -> Vec<&'c str> {
    let characters: Vec<char> = wanted.chars().take(LENGTH).collect();
    let max = characters.len() / 3 + 1;
    // For the substring search, limit the length as for other comparisons.
    let start =
        wanted.char_indices().nth(LENGTH).map_or(wanted, |(end, _)| wanted.get(..end).unwrap_or(wanted));
    let mut left = PAIRS;
    let mut close: Vec<(usize, usize, &str)> = Vec::new();
    for tensor in catalog.iter().take(NAMES) {
        let name = tensor.name();
        let contains =
            !start.is_empty() && (name.contains(start) || (!name.is_empty() && start.contains(name)));
        let distance = if contains { Some(1) } else { distance(&characters, name, max, &mut left) };
        if let Some(distance) = distance {
            close.push((distance, tensor.ordinal(), name));
        }
    }
    close.arrange();
    close.into_iter().take(COUNT).map(|(.., name)| name).collect()
}

/// Returns the error for a tensor that is to be changed and does not exist.
pub fn no_such_tensor(catalog: &Catalog, name: &str) -> Error {
    let close: Vec<_> = to(catalog, name).into_iter().map(|close| format!("{close:?}")).collect();
    let hint = if close.is_empty() {
        format!("the file has {} tensors", catalog.len())
    } else {
        format!("did you mean {}?", close.join(" or "))
    };
    Error::new(Code::NotFound, format!("there is no such tensor to change: {hint}")).tensor(name)
}

/// Returns the number of edits that turn `name` into `wanted`, if at most `max`. Deducts comparisons from `budget`, and returns `None`
/// once it is spent.
fn distance(wanted: &[char], name: &str, max: usize, budget: &mut usize) -> Option<usize> {
    let name: Vec<char> = name.chars().take(LENGTH).collect();
    if name.len().abs_diff(wanted.len()) > max {
        return None;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, &wanted) in wanted.iter().enumerate() {
        *budget = budget.checked_sub(name.len())?;
        let mut diagonal = std::mem::replace(row.first_mut()?, at + 1);
        let mut left = at + 1;
        let mut best = left;
        for (&found, cell) in name.iter().zip(row.iter_mut().skip(1)) {
            let substituted = diagonal + usize::from(found != wanted);
            diagonal = *cell;
            left = substituted.min(left + 1).min(*cell + 1);
            *cell = left;
            best = best.min(left);
        }
        if best > max {
            return None;
        }
    }
    row.last().copied().filter(|&distance| distance <= max)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances() {
        let distance = |wanted: &str, name, max| {
            let mut budget = usize::MAX;
            distance(&wanted.chars().collect::<Vec<_>>(), name, max, &mut budget)
        };
        assert_eq!(distance("weight", "wieght", 3), Some(2));
        assert_eq!(distance("weight", "weights", 3), Some(1));
        assert_eq!(distance("weight", "bias", 3), None);
        assert_eq!(distance("", "", 1), Some(0));
    }

    #[test]
    fn names_are_compared_as_long_as_the_work_lasts() {
        let wanted: Vec<char> = "weight".chars().collect();
        let mut budget = 2 * 36;
        assert_eq!(distance(&wanted, "wieght", 3, &mut budget), Some(2));
        assert_eq!(distance(&wanted, "wieght", 3, &mut budget), Some(2));
        assert_eq!(distance(&wanted, "wieght", 3, &mut budget), None);
    }
}
