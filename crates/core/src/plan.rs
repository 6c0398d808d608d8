//! Which bytes of the files one rank of a tensor-parallel group needs.
#![forbid(unsafe_code)]

use crate::catalog::{Catalog, Span, Tensor};
use crate::cut::{Cut, shard};
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::limits;

/// One tensor's part in a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    pub ordinal: u32,
    /// The dimension that is divided; `None` for a tensor that every rank has whole.
    pub dim: Option<usize>,
}

/// Which rank of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rank {
    pub rank: u64,
    pub world_size: u64,
}

/// The bytes that a rank needs, in the order of the files and joined where they touch: those that loading its part reads.
/// A tensor that is stored encoded is needed whole, whatever part of it is wanted.
pub fn spans(catalog: &Catalog, planned: &[Planned], rank: Rank) -> Result<Vec<Span>> {
    inject::panic_at("plan");
    let mut spans = Vec::new();
    for one in planned {
        let Some(tensor) = catalog.tensor(one.ordinal as usize) else { continue };
        if tensor.is_unread() {
            let message = "where its bytes lie is not known: open the index without shards: 'none'";
            return Err(Error::new(Code::BadLayout, message).tensor(tensor.name()));
        }
        match one.dim {
            None => spans.extend(tensor.own_ranges()),
            Some(dim) => {
                divided(tensor, dim, rank, &mut spans).map_err(|error| error.tensor(tensor.name()))?;
            }
        }
        if spans.len() > limits::PLAN_RANGES {
            let message = format!("the plan has more than {} ranges of bytes", limits::PLAN_RANGES);
            return Err(Error::new(Code::Limit, message));
        }
    }
    Ok(Span::joined(spans))
}

fn divided(
    tensor: Tensor<'_>,
    dim: usize,
    Rank { rank, world_size }: Rank,
    spans: &mut Vec<Span>,
) -> Result<()> {
    let (Some(data), Some(dtype)) = (tensor.data(), tensor.dtype()) else {
        let message = format!(
            "the layout is {:?}: only dense tensors can be divided; replicate it",
            tensor.layout_name()
        );
        return Err(Error::new(Code::BadLayout, message));
    };
    let cut = Cut::new(tensor.shape(), &shard(tensor.shape(), dim, rank, world_size)?, dtype.bits())?;
    let Some((offset, _)) = data.plain_range() else {
        spans.extend(tensor.own_ranges());
        return Ok(());
    };
    for (start, length) in cut.runs() {
        if spans.len() > limits::PLAN_RANGES {
            return Ok(());
        }
        spans.push(Span { file: data.file, offset: offset.saturating_add(start), length });
    }
    Ok(())
}
