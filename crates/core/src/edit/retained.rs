//! What stays of the data of a file when tensors are dropped from its header.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::collections::HashSet;
use std::ops::Range;

use crate::formats::RetainedData;
use crate::model::Catalog;

/// Where a tensor is.
struct Blob {
    offset: u64,
    end: u64,
    dropped: bool,
}

/// Returns the data, from `data` to the end of the file at `total`, without that of the dropped tensors. The bytes from a dropped tensor to
/// the next one go with it, unless another tensor has any of them.
pub fn retained_data(catalog: &Catalog, dropped: &HashSet<usize>, data: u64, total: u64) -> RetainedData {
    let mut blobs: Vec<Blob> = Vec::new();
    for tensor in catalog.iter() {
        let dropped = dropped.contains(&tensor.ordinal());
        for part in tensor.components() {
            let offset = part.offset();
            blobs.push(Blob { offset, end: offset.saturating_add(part.stored_length()), dropped });
        }
    }
    blobs.arrange_by_key(|blob| blob.offset);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // Where the current range begins, and the end of the tensors that stay.
    let (mut start, mut needed) = (data, data);
    let mut rest = &*blobs;
    while let Some(first) = rest.first() {
        let count = rest.partition_point(|blob| blob.offset == first.offset);
        let (here, others) = rest.split_at(count);
        rest = others;
        let next = rest.first().map_or(total, |blob| blob.offset);
        let mut stored = here.iter().filter(|blob| blob.end > blob.offset).peekable();
        if stored.peek().is_some() && stored.all(|blob| blob.dropped) && needed <= first.offset {
            if first.offset > start {
                ranges.push(start..first.offset);
            }
            start = next;
        }
        needed = here.iter().filter(|blob| !blob.dropped).map(|blob| blob.end).fold(needed, u64::max);
    }
    if total > start {
        ranges.push(start..total);
    }
    RetainedData::new(ranges)
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // ranges of bytes that are retained: often one
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::model::{Builder, Component, Container, DType, Label, Layout, NewTensor};

    /// Returns what is retained of a file with data from 100 to `total` and tensors of bytes, each an offset and a length.
    fn after(tensors: &[(u64, u64)], dropped: &[usize], total: u64) -> Vec<Range<u64>> {
        let mut builder = Builder::new(Container::named("made up"), &Limits::default());
        for (at, &(offset, length)) in tensors.iter().enumerate() {
            let mut components = builder.no_components();
            components.push(Component::raw(Label::DATA, Some(DType::Uint8), offset, length));
            let (name, shape) = (at.to_string(), [length]);
            let new = NewTensor {
                name: &name,
                shape: &shape,
                layout: Layout::Dense,
                dtype: Some(DType::Uint8),
                components,
                attributes: None,
            };
            builder.add_tensor(new).unwrap();
        }
        retained_data(&builder.finish(), &dropped.iter().copied().collect(), 100, total).ranges().to_vec()
    }

    #[test]
    fn dropped_tensors_go_with_the_bytes_up_to_the_next() {
        let tensors = [(100, 10), (132, 20), (164, 0), (164, 6)];
        for (dropped, wanted) in [
            (&[][..], &[100..200][..]),
            (&[0], &[132..200]),
            (&[1], &[100..132, 164..200]),
            (&[2], &[100..200]),
            (&[3], &[100..164]),
            (&[0, 1], &[164..200]),
            (&[1, 2, 3], &[100..132]),
            (&[0, 1, 2, 3], &[]),
        ] {
            assert_eq!(after(&tensors, dropped, 200), wanted, "{dropped:?}");
        }
        assert_eq!(after(&[], &[], 100), []);
        assert_eq!(after(&[(120, 10), (110, 10)], &[0], 130), [100..120], "in any order");
    }

    #[test]
    fn bytes_of_a_remaining_tensor_are_retained() {
        // Each overlaps the next.
        let tensors = [(100, 50), (120, 50), (160, 10)];
        assert_eq!(after(&tensors, &[1], 200), [100..200]);
        assert_eq!(after(&tensors, &[0], 200), [120..200]);
        assert_eq!(after(&tensors, &[2], 200), [100..200]);
        assert_eq!(after(&[(100, 10), (100, 20)], &[1], 130), [100..130]);
    }

    #[test]
    fn offsets_decrease_by_the_removed_bytes_before_them() {
        let retained = RetainedData::new(vec![100..132, 164..200]);
        assert_eq!(retained.length(), 68);
        for (old, new) in [(100, 0), (131, 31), (132, 32), (164, 32), (199, 67), (200, 68)] {
            assert_eq!(retained.moved(old), new, "{old}");
        }
        assert_eq!(RetainedData::new(vec![]).moved(100), 0);
    }
}
