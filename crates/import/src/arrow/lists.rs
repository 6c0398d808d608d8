//! Columns of lists (Columnar Format, "Variable-size List Layout"): they are tensors if all lists have the same length, which only their
//! offsets tell.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use ztensor_core::codecs::frames::Size;
use ztensor_core::codecs::prefixed::{self, PrefixedCodec};
use ztensor_core::error::Result;
use ztensor_core::formats::Input;
use ztensor_core::model::Builder;

use super::message::Buffer;
use crate::limits::ARROW_OFFSETS_BYTES;

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// How the buffers of a batch are compressed.
#[derive(Clone, Copy)]
pub enum Compression {
    None,
    Known(PrefixedCodec),
    Unknown,
}

/// Offsets of a batch.
#[derive(Clone, Copy)]
pub struct Offsets {
    pub buffer: Buffer,
    /// Bytes of an offset.
    pub width: u64,
    pub is_big: bool,
    pub compression: Compression,
}

/// The lists of one slot.
struct List {
    name: String,
    /// Their length, once a batch has any.
    length: Option<u64>,
    /// Why they are not a tensor.
    problem: Option<&'static str>,
}

/// The lists that columns depend on, by slot.
pub struct Lists {
    all: BTreeMap<usize, List>,
    /// Bytes of offsets that may still be read.
    left: u64,
}

impl Lists {
    pub fn new(names: BTreeMap<usize, String>) -> Self {
        let list = |(slot, name)| (slot, List { name, length: None, problem: None });
        Self { all: names.into_iter().map(list).collect(), left: ARROW_OFFSETS_BYTES }
    }

    /// Returns the length of the lists of a slot; `None` if they are not a tensor.
    pub fn length(&self, slot: usize) -> Option<u64> {
        self.all.get(&slot).filter(|list| list.problem.is_none())?.length
    }

    pub fn is_irregular(&self, slot: usize) -> bool {
        self.all.get(&slot).is_some_and(|list| list.problem.is_some())
    }

    /// Notes that the values of the lists are not in order, without gaps.
    pub fn reject(&mut self, slot: usize) {
        if let Some(list) = self.all.get_mut(&slot) {
            list.problem.get_or_insert("its lists do not follow each other");
        }
    }

    /// Reads the offsets of `count` lists of a batch. Returns their length, or `None` if they are not a tensor.
    pub fn add(
        &mut self,
        slot: usize,
        count: u64,
        offsets: Offsets,
        input: &Input<'_>,
    ) -> Result<Option<u64>> {
        let Some(list) = self.all.get_mut(&slot).filter(|list| list.problem.is_none()) else {
            return Ok(None);
        };
        if count == 0 {
            return Ok(Some(list.length.unwrap_or_default()));
        }
        let bytes = count.checked_add(1).and_then(|count| count.checked_mul(offsets.width));
        let Some((bytes, left)) = bytes.and_then(|bytes| Some((bytes, self.left.checked_sub(bytes)?))) else {
            list.problem = Some("it has too many lists to see whether they have one length");
            return Ok(None);
        };
        self.left = left;
        match offsets.step(bytes, input)? {
            Some(length) if list.length.is_none_or(|known| known == length) => list.length = Some(length),
            _ => list.problem = Some("its lists differ in length"),
        }
        Ok(list.length.filter(|_| list.problem.is_none()))
    }

    /// Warns of the lists that are not a tensor.
    pub fn warn(&self, builder: &mut Builder) {
        for List { name, length, problem } in self.all.values() {
            let Some(problem) = problem.or(length.is_none().then_some("it has no lists")) else { continue };
            let message = format!("the column {name:?} is list: it is not a tensor, because {problem}");
            builder.warn("ZT_WARN_SKIPPED", message, None, None);
        }
    }
}

impl Offsets {
    /// Returns the distance of the offsets, which are `bytes` bytes; `None` if it varies, or if the first is not 0.
    fn step(self, bytes: u64, input: &Input<'_>) -> Result<Option<u64>> {
        let Buffer { at, length } = self.buffer;
        let mut steps = Steps { of: self, last: None, step: None };
        match self.compression {
            Compression::None if length < bytes => return Ok(None),
            Compression::None => {
                let mut done = 0;
                while done < bytes {
                    input.stop.check()?;
                    let next = PIECE.min(bytes - done);
                    if !steps.take(&input.read_vec(at + done, next)?) {
                        return Ok(None);
                    }
                    done += next;
                }
            }
            Compression::Unknown => return Ok(None),
            Compression::Known(inner) => {
                let packed = input.read_vec(at, length.min(bytes.saturating_mul(2).saturating_add(PIECE)))?;
                let Ok(decoded) = prefixed::decode(inner, &packed, Size::Exactly(bytes), input.stop) else {
                    input.stop.check()?;
                    return Ok(None);
                };
                if !steps.take(&decoded) {
                    return Ok(None);
                }
            }
        }
        Ok(steps.step)
    }
}

/// Whether offsets have one distance so far.
struct Steps {
    of: Offsets,
    last: Option<u64>,
    step: Option<u64>,
}

impl Steps {
    /// Takes whole offsets. Returns false at one that has another distance.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let width = if self.of.width == 4 { 4 } else { 8 };
        bytes.chunks_exact(width).all(|offset| {
            let fold = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
            let offset =
                if self.of.is_big { offset.iter().fold(0, fold) } else { offset.iter().rev().fold(0, fold) };
            let step = self.last.map(|last| offset.checked_sub(last));
            self.last = Some(offset);
            match step {
                None => offset == 0,
                Some(None) => false,
                Some(Some(step)) => *self.step.get_or_insert(step) == step,
            }
        })
    }
}
