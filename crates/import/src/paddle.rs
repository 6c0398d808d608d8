//! PaddlePaddle: pickles of `paddle.save` (`.pdparams`, `.pdopt`), and the combined parameters of an inference model (`.pdiparams`).
//! `paddle/framework/io.py` and `DenseTensorToStream` are the only specification.
#![forbid(unsafe_code)]

mod combined;
mod list;
mod meanings;
mod program;

use std::sync::Arc;

use ztensor_core::error::Result;
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::model::{Builder, Catalog, Container};
use ztensor_core::sources::ReadAt;

use crate::damage::Damage;
use crate::limits::PICKLE_BYTES;
use crate::pickle::{Pickle, attributes, walk};
use meanings::Paddle;

const NAME: &str = "paddle";
const MISSING: &str = "no parameters of PaddlePaddle";
/// PROTO, which begins a pickle of the protocols that Paddle writes.
const PROTO: u8 = 0x80;
const PROTOCOLS: std::ops::RangeInclusive<u8> = 2..=4;

pub const FORMAT: Format = Format {
    name: NAME,
    title: "PaddlePaddle",
    endings: &["pdparams", "pdopt", "pdiparams"],
    missing: MISSING,
    detect,
    parse,
    writes: &[],
    header: None,
};

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    let is_paddle =
        if is_pickle(probe)? { has_arrays(probe)? } else { combined::detect(probe, probe.length())? };
    Ok(if is_paddle { Confidence::Likely } else { Confidence::No })
}

fn is_pickle(probe: &Probe<'_>) -> Result<bool> {
    Ok(matches!(probe.first(2)?, [PROTO, protocol] if PROTOCOLS.contains(protocol)))
}

/// Nothing in a pickle identifies Paddle. Accepts one whose root is a dict, a list, a tuple or an array, and that names Paddle's keys or
/// NumPy arrays at its beginning: pickles of other libraries read correctly as well.
fn has_arrays(probe: &Probe<'_>) -> Result<bool> {
    let first = probe.first(Probe::BYTES)?;
    // In protocol 4 a frame and its length come first.
    let ([_, _, 0x95, _, _, _, _, _, _, _, _, opcodes @ ..] | [_, _, opcodes @ ..]) = first else {
        return Ok(false);
    };
    let is_plain = match opcodes {
        [b'}' | b']' | b'(' | b')', ..] => true,
        // An object: a standard dict, a tensor or an array. Other classes do not occur in Paddle checkpoints.
        [b'c', module @ ..] | [0x8c, _, module @ ..] => ["collections", "builtins", "__builtin__", "numpy"]
            .iter()
            .any(|one| module.starts_with(one.as_bytes())),
        _ => false,
    };
    if !is_plain {
        return Ok(false);
    }
    let has = |text: &str| first.windows(text.len()).any(|window| window == text.as_bytes());
    let last = probe.last(Probe::BYTES)?;
    let ends = |text: &str| last.windows(text.len()).any(|window| window == text.as_bytes());
    let own = [meanings::SPLITS, list::NAMES].iter().any(|key| has(key) || ends(key));
    Ok(own || (has("multiarray") && has("_reconstruct") && has("ndarray")))
}

fn parse(input: &Input<'_>) -> Result<Catalog> {
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    if !is_pickle(&Probe::new(input.source, input.stop))? {
        return combined::parse(input, builder)?.ok_or_else(|| bad_magic(MISSING));
    }
    let max = input.limits.max_index_bytes.unwrap_or(PICKLE_BYTES);
    let pickle = Arc::new(Pickle::read(input, max)?);
    let mut damage = Damage::default();
    let found = walk::walk::<Paddle>(&pickle, "", &mut builder, &mut damage)?;
    list::add(&mut builder, &mut damage, &pickle, found.tensors)?;
    walk::warn(&mut builder, found.skipped);
    attributes::add::<Paddle>(&mut builder, Arc::clone(&pickle), found.seen)?;
    damage.finish(builder)
}
