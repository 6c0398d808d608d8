//! Limits the total size of work on many tensors to a multiple of their files' size: each may decode to far more than its stored size, and
//! before version 2 thousands may share the same bytes.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::error::{Code, Error, Result};
use crate::limits::{Limits, TIMES_THE_FILES};
use crate::model::{Catalog, Component, Tensor};

/// The kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Loading elements.
    Load,
    /// Copying all components.
    Copy,
    /// Verifying all components; shared ones are read once.
    Verify,
}

/// Rejects work on tensors, given by their ordinals, whose total size far exceeds the `held` bytes of their files.
pub fn check(catalog: &Catalog, limits: &Limits, ordinals: &[u32], held: u64, work: Work) -> Result<()> {
    let max = limits.max_decoded_bytes.saturating_add(held.saturating_mul(TIMES_THE_FILES));
    let mut total = sum(catalog, limits, ordinals, |tensor, part| work != Work::Load || tensor.is_own(part));
    if total > max && work == Work::Verify {
        let mut seen = HashSet::new();
        total = sum(catalog, limits, ordinals, |tensor, part| {
            (tensor.is_sparse() && tensor.is_own(part)) || seen.insert(part.key())
        });
    }
    if total <= max {
        return Ok(());
    }
    let message = format!(
        "these tensors have {total} bytes in total, but the file has {held}: more than {TIMES_THE_FILES} times as much, and more than \
         {}; take fewer at a time, or raise the limit for a file that you trust",
        limits.max_decoded_bytes
    );
    Err(Error::new(Code::Limit, message).option("maxDecodedBytes"))
}

/// Returns the bytes to be hashed or produced for the relevant components, each up to the permitted maximum.
fn sum<'a>(
    catalog: &'a Catalog,
    limits: &Limits,
    ordinals: &[u32],
    mut counts: impl FnMut(Tensor<'a>, &'a Component) -> bool,
) -> u64 {
    let mut total = 0_u64;
    for tensor in ordinals.iter().filter_map(|&ordinal| catalog.tensor(ordinal as usize)) {
        for part in tensor.components() {
            if counts(tensor, part) {
                let made = part.byte_length().unwrap_or(0).min(limits.max_decoded_bytes);
                total = total.saturating_add(part.stored_length().max(made));
            }
        }
    }
    total
}
