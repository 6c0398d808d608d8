//! Sorts without much code: `slice::sort_by` is compiled for each type of element and each comparison, and each copy has some 7 KB.
//! Here, one copy sorts the positions of the elements. Numbers, and elements of tensors, are sorted by `sort_unstable`.
use std::cmp::Ordering;

/// Sorts slices of any elements, stably: equal elements keep their order.
pub trait Arrange<T> {
    /// Sorts by a comparison.
    fn arrange_by(&mut self, compare: impl Fn(&T, &T) -> Ordering);

    /// Sorts by a key.
    fn arrange_by_key<K: Ord>(&mut self, key: impl Fn(&T) -> K) {
        self.arrange_by(|one, other| key(one).cmp(&key(other)));
    }

    /// Sorts in ascending order.
    fn arrange(&mut self)
    where
        T: Ord,
    {
        self.arrange_by(T::cmp);
    }
}

impl<T> Arrange<T> for [T] {
    fn arrange_by(&mut self, compare: impl Fn(&T, &T) -> Ordering) {
        let elements = &*self;
        if elements.is_sorted_by(|one, other| compare(one, other).is_le()) {
            return;
        }
        let order = sorted(elements.len(), &|one, other| match (elements.get(one), elements.get(other)) {
            (Some(one), Some(other)) => compare(one, other),
            _ => one.cmp(&other),
        });
        arranged(order, &mut |one, other| self.swap(one, other));
    }
}

/// The positions of `len` elements, sorted by a comparison of the elements.
fn sorted(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&one, &other| compare(one, other));
    order
}

/// Moves the element at each position `order[i]` to `i`, by exchanging two at a time.
fn arranged(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        // Each cycle of moves is followed once: positions that are done point to themselves.
        let mut at = start;
        while let Some(place) = order.get_mut(at) {
            let from = std::mem::replace(place, at);
            if from == start {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorts_as_the_standard_library(elements in prop::collection::vec((0..9_u8, 0..1000_u16), 0..200)) {
            let mut expected = elements.clone();
            expected.sort_by_key(|&(key, _)| key);
            let mut found = elements.clone();
            found.arrange_by_key(|&(key, _)| key);
            prop_assert_eq!(&found, &expected);
            expected.sort_unstable();
            found.arrange();
            prop_assert_eq!(&found, &expected);
            expected.reverse();
            found.arrange_by(|one, other| other.cmp(one));
            prop_assert_eq!(found, expected);
        }
    }
}
