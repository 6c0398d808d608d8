//! Names close to one that is not there, for the error that says so.
#![forbid(unsafe_code)]

use crate::model::Catalog;

/// Names looked at; beyond that a typing mistake is not worth the time.
const NAMES: usize = 50_000;
/// Characters compared of each name.
const LENGTH: usize = 128;
/// Pairs of characters compared in all, some 50 ms: names may be many, long and alike.
const PAIRS: usize = 1 << 25;
/// Suggestions given.
const COUNT: usize = 3;

/// Up to three names of the catalog, the closest first: those that contain `wanted` or are contained in it,
/// or that few edits turn into it.
pub fn to<'c>(catalog: &'c Catalog, wanted: &str) -> Vec<&'c str> {
    let characters: Vec<char> = wanted.chars().take(LENGTH).collect();
    let most = characters.len() / 3 + 1;
    // What is looked for within names: no more of a text without end than is compared otherwise.
    let start =
        wanted.char_indices().nth(LENGTH).map_or(wanted, |(end, _)| wanted.get(..end).unwrap_or(wanted));
    let mut left = PAIRS;
    let mut close: Vec<(usize, usize, &str)> = Vec::new();
    for tensor in catalog.iter().take(NAMES) {
        let name = tensor.name();
        let contains =
            !start.is_empty() && (name.contains(start) || (!name.is_empty() && start.contains(name)));
        let distance = if contains { Some(1) } else { distance(&characters, name, most, &mut left) };
        if let Some(distance) = distance {
            close.push((distance, tensor.ordinal(), name));
        }
    }
    close.sort_unstable();
    close.into_iter().take(COUNT).map(|(.., name)| name).collect()
}

/// Edits that turn `name` into `wanted`, where they are at most `most`. Takes what it compares off `spare`, and is `None` when
/// that is spent.
fn distance(wanted: &[char], name: &str, most: usize, spare: &mut usize) -> Option<usize> {
    let name: Vec<char> = name.chars().take(LENGTH).collect();
    if name.len().abs_diff(wanted.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (at, &wanted) in wanted.iter().enumerate() {
        *spare = spare.checked_sub(name.len())?;
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
        if best > most {
            return None;
        }
    }
    row.last().copied().filter(|&distance| distance <= most)
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances() {
        let distance = |wanted: &str, name, most| {
            let mut spare = usize::MAX;
            distance(&wanted.chars().collect::<Vec<_>>(), name, most, &mut spare)
        };
        assert_eq!(distance("weight", "wieght", 3), Some(2));
        assert_eq!(distance("weight", "weights", 3), Some(1));
        assert_eq!(distance("weight", "bias", 3), None);
        assert_eq!(distance("", "", 1), Some(0));
    }

    #[test]
    fn names_are_compared_as_long_as_the_work_lasts() {
        let wanted: Vec<char> = "weight".chars().collect();
        let mut spare = 2 * 36;
        assert_eq!(distance(&wanted, "wieght", 3, &mut spare), Some(2));
        assert_eq!(distance(&wanted, "wieght", 3, &mut spare), Some(2));
        assert_eq!(distance(&wanted, "wieght", 3, &mut spare), None);
    }
}
