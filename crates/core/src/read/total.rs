//! What work on many tensors comes to, held to a multiple of what their files hold: each of them may decode to far more than it
//! takes, and below version 2 thousands may stand over the same bytes.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use crate::error::{Code, Error, Result};
use crate::limits::{Limits, TIMES_THE_FILES};
use crate::model::{Catalog, Component, Tensor};

/// What is done with tensors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Their elements are loaded.
    Load,
    /// All of their components are copied.
    Copy,
    /// All of their components are verified; what several of them share is looked at once.
    Verify,
}

/// Refuses to work on tensors, given by their ordinals, that come to far more bytes than the `held` ones of their files.
pub fn check(catalog: &Catalog, limits: &Limits, ordinals: &[u32], held: u64, work: Work) -> Result<()> {
    let most = limits.max_decoded_bytes.saturating_add(held.saturating_mul(TIMES_THE_FILES));
    let mut total = sum(catalog, limits, ordinals, |tensor, part| work != Work::Load || tensor.is_own(part));
    if total > most && work == Work::Verify {
        let mut seen = HashSet::new();
        total = sum(catalog, limits, ordinals, |tensor, part| {
            (tensor.is_sparse() && tensor.is_own(part)) || seen.insert(part.key())
        });
    }
    if total <= most {
        return Ok(());
    }
    let message = format!(
        "these tensors come to {total} bytes, of {held} in the file: more than {TIMES_THE_FILES} times as much and the \
         option maxDecodedBytes ({}); take fewer at a time, or raise it for a file that you trust",
        limits.max_decoded_bytes
    );
    Err(Error::new(Code::Limit, message))
}

/// Bytes that have to be hashed or made for the components that count. No more is made of one than is permitted.
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
