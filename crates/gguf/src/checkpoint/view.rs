//! Which elements of a tensor make up another, and in which order.
#![forbid(unsafe_code)]

use ztensor_core::checked::product;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::model::Strided;

/// An axis: how many steps, and elements from one to the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Axis {
    pub extent: u64,
    pub stride: u64,
}

/// Elements of a dense tensor in C order, from `offset` on along the axes, outermost first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    pub offset: u64,
    pub axes: Vec<Axis>,
}

impl View {
    /// All elements of a tensor of this shape.
    pub fn of(shape: &[u64]) -> Result<Self> {
        product(shape).ok_or_else(|| wrong("its number of elements exceeds 64 bits"))?;
        let mut axes: Vec<Axis> = shape.iter().map(|&extent| Axis { extent, stride: 1 }).collect();
        let mut stride = 1_u64;
        for axis in axes.iter_mut().rev() {
            axis.stride = stride;
            stride = stride.saturating_mul(axis.extent.max(1));
        }
        Ok(Self { offset: 0, axes })
    }

    pub fn shape(&self) -> Vec<u64> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    fn axis(&mut self, at: usize) -> Result<&mut Axis> {
        self.axes.get_mut(at).ok_or_else(|| wrong(&format!("it does not have axis {at}")))
    }

    /// Replaces an axis by `parts` and the rest: [12] by 3 becomes [3, 4].
    pub fn split(&mut self, at: usize, parts: u64) -> Result<()> {
        let Axis { extent, stride } = *self.axis(at)?;
        if parts == 0 || extent % parts != 0 {
            return Err(wrong(&format!("axis {at} has {extent} elements, not a multiple of {parts}")));
        }
        let inner = extent / parts;
        self.axes.splice(
            at..=at,
            [Axis { extent: parts, stride: stride.saturating_mul(inner) }, Axis { extent: inner, stride }],
        );
        Ok(())
    }

    pub fn swap(&mut self, a: usize, b: usize) -> Result<()> {
        if a.max(b) >= self.axes.len() {
            return Err(wrong(&format!("it does not have axis {}", a.max(b))));
        }
        self.axes.swap(a, b);
        Ok(())
    }

    /// Retains `count` elements of an axis, from `start` on, each `step`-th.
    pub fn slice(&mut self, at: usize, start: u64, count: u64, step: u64) -> Result<()> {
        let axis = self.axis(at)?;
        let last = count.checked_sub(1).map(|last| last.saturating_mul(step).saturating_add(start));
        if last.is_some_and(|last| last >= axis.extent) {
            return Err(wrong(&format!("axis {at} has {} elements, too few", axis.extent)));
        }
        let offset = if count == 0 { 0 } else { start.saturating_mul(axis.stride) };
        *axis = Axis { extent: count, stride: axis.stride.saturating_mul(step) };
        self.offset = self.offset.saturating_add(offset);
        Ok(())
    }

    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        product(&self.shape()).unwrap_or(u64::MAX)
    }

    /// Returns how many elements follow one another in the source and in the result, from each start of a run on.
    pub fn run(&self) -> u64 {
        let mut run = 1;
        for axis in self.axes.iter().rev() {
            if axis.extent != 1 && axis.stride != run {
                break;
            }
            run = run.saturating_mul(axis.extent);
        }
        run
    }

    /// Returns the axes around the runs.
    fn outer(&self) -> &[Axis] {
        let (run, mut inner) = (self.run(), 1_u64);
        let mut outer = self.axes.as_slice();
        while inner < run {
            let Some((axis, rest)) = outer.split_last() else { break };
            inner = inner.saturating_mul(axis.extent);
            outer = rest;
        }
        outer
    }

    /// Returns the runs as loops over bytes, for elements of `width` bytes. Fails with `ZT_LIMIT` if an offset exceeds 64 bits.
    pub fn strided(&self, width: u64) -> Result<Strided> {
        let bytes = |elements: u64| {
            let too_large = || Error::new(Code::Limit, "its offsets exceed 64 bits");
            elements.checked_mul(width).ok_or_else(too_large)
        };
        let loops = self.outer().iter().map(|axis| Ok((axis.extent, bytes(axis.stride)?)));
        let loops = loops.collect::<Result<Vec<_>>>()?.into();
        Ok(Strided { start: bytes(self.offset)?, run: bytes(self.run())?, loops })
    }

    /// Calls `each` with the start of each run, in elements of the source.
    pub fn runs(&self, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
        let total = self.elements();
        if total == 0 {
            return Ok(());
        }
        let (run, outer) = (self.run(), self.outer());
        for number in 0..total / run {
            let (mut left, mut start) = (number, self.offset);
            for axis in outer.iter().rev() {
                start += left % axis.extent * axis.stride;
                left /= axis.extent;
            }
            each(start)?;
        }
        Ok(())
    }
}

fn wrong(what: &str) -> Error {
    Error::new(Code::BadShape, format!("the tensor does not fit its configuration: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(view: &View) -> Vec<u64> {
        let mut taken = Vec::new();
        view.runs(|start| {
            taken.extend(start..start + view.run());
            Ok(())
        })
        .unwrap();
        taken
    }

    #[test]
    fn a_whole_tensor_is_one_run() {
        let view = View::of(&[2, 3, 4]).unwrap();
        assert_eq!((view.run(), taken(&view)), (24, (0..24).collect()));
        assert_eq!(taken(&View::of(&[]).unwrap()), [0]);
        assert!(taken(&View::of(&[3, 0]).unwrap()).is_empty());
        assert!(View::of(&[1 << 40, 1 << 40]).is_err());
    }

    #[test]
    fn rows_of_heads_are_interleaved() {
        // Two heads of four rows of two elements: [2, 2, 2, 2] with the inner axes exchanged.
        let mut view = View::of(&[8, 2]).unwrap();
        view.split(0, 2).unwrap();
        view.split(1, 2).unwrap();
        view.swap(1, 2).unwrap();
        assert_eq!(view.run(), 2);
        assert_eq!(taken(&view), [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
    }

    #[test]
    fn slices_and_transposes() {
        let mut odd = View::of(&[2, 4]).unwrap();
        odd.slice(1, 1, 2, 2).unwrap();
        assert_eq!((odd.shape(), taken(&odd)), (vec![2, 2], vec![1, 3, 5, 7]));
        let mut turned = View::of(&[2, 3]).unwrap();
        turned.swap(0, 1).unwrap();
        assert_eq!((turned.shape(), taken(&turned)), (vec![3, 2], vec![0, 3, 1, 4, 2, 5]));
        let mut half = View::of(&[4, 3]).unwrap();
        half.slice(0, 2, 2, 1).unwrap();
        assert_eq!((half.run(), taken(&half)), (6, (6..12).collect()));
    }

    #[test]
    fn views_out_of_range_are_refused() {
        let mut view = View::of(&[6]).unwrap();
        for parts in [0, 4, 7] {
            assert_eq!(view.split(0, parts).map_err(|error| error.code()), Err(Code::BadShape), "{parts}");
        }
        assert!(view.slice(0, 3, 4, 1).is_err());
        assert!(view.slice(0, u64::MAX, 2, u64::MAX).is_err());
        assert!(view.swap(0, 1).is_err());
        assert!(view.split(1, 1).is_err());
    }
}
