//! Copies short runs at regular distances.
#![forbid(unsafe_code)]

/// Fills `out` with runs of `width` bytes that start at 0, `stride`, 2 `stride` … of `input`. Returns false, with `out` partly written, if
/// `input` ends before the last run, or if `out` is not whole runs. Runs may overlap.
#[must_use]
pub(crate) fn gather(input: &[u8], stride: usize, width: usize, out: &mut [u8]) -> bool {
    if out.is_empty() {
        return true;
    }
    if width == 0 || !out.len().is_multiple_of(width) {
        return false;
    }
    let last = (out.len() / width - 1).checked_mul(stride).and_then(|start| start.checked_add(width));
    if last.is_none_or(|end| end > input.len()) {
        return false;
    }
    if width == out.len() || width == stride {
        // Contiguous; its length was checked above.
        return input.get(..out.len()).is_some_and(|input| {
            out.copy_from_slice(input);
            true
        });
    }
    if stride < width {
        return any_width(input, stride, width, out);
    }
    match width {
        1 => fixed::<1>(input, stride, out),
        2 => fixed::<2>(input, stride, out),
        4 => fixed::<4>(input, stride, out),
        8 => fixed::<8>(input, stride, out),
        16 => fixed::<16>(input, stride, out),
        _ => any_width(input, stride, width, out),
    }
}

/// Copies runs of a width known at compile time, with one load and one store each instead of a call of memcpy.
fn fixed<const W: usize>(input: &[u8], stride: usize, out: &mut [u8]) -> bool {
    for (out, run) in out.as_chunks_mut::<W>().0.iter_mut().zip(input.chunks(stride)) {
        match run.first_chunk() {
            Some(run) => *out = *run,
            None => return false,
        }
    }
    true
}

fn any_width(input: &[u8], stride: usize, width: usize, out: &mut [u8]) -> bool {
    let mut rest = Some(input);
    for out in out.chunks_exact_mut(width) {
        let Some((from, run)) = rest.and_then(|rest| Some((rest, rest.get(..width)?))) else {
            return false;
        };
        out.copy_from_slice(run);
        rest = from.get(stride..);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::gather;

    #[test]
    fn runs_of_every_width_and_distance_are_copied() {
        let input: Vec<u8> = (0..=255).collect();
        for width in 1..20 {
            for stride in 0..24 {
                for count in 0..5 {
                    let needed = if count == 0 { 0 } else { (count - 1) * stride + width };
                    let mut out = vec![0xEE; count * width];
                    assert!(gather(&input[..needed], stride, width, &mut out), "{width} {stride} {count}");
                    let expected: Vec<u8> =
                        (0..count).flat_map(|i| input[i * stride..i * stride + width].to_vec()).collect();
                    assert_eq!(out, expected, "width {width}, stride {stride}, count {count}");
                    if needed > 0 {
                        assert!(!gather(&input[..needed - 1], stride, width, &mut out));
                    }
                }
            }
        }
    }

    #[test]
    fn invalid_requests_are_rejected() {
        assert!(gather(&[], 0, 0, &mut []));
        assert!(!gather(&[1], 0, 0, &mut [0]));
        assert!(!gather(&[1, 2, 3], 1, 2, &mut [0; 3]));
        assert!(!gather(&[1, 2, 3], usize::MAX, 1, &mut [0; 3]));
    }
}
