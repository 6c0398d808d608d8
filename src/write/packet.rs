//! A small dense tensor packed by the wrapper into one block of bytes: separate arguments would cost as much as the rest of the call. If
//! the runtime supports it, the block is native memory, and a call has no arguments.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Result as CoreResult};
use ztensor_core::model::DType;
use ztensor_core::write::{Spec, Writer};

use crate::js::buffer::{self, Mailbox};
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::values::arguments::unsigned;
use crate::write::writer::{NativeWriter, Slot, gone};
use ztensor_handover::number;

thread_local! {
    static MAILBOX: Arc<Mailbox> = Mailbox::new(ELEMENTS + LARGEST);
    /// The writer whose packets the mailbox holds, by number.
    static READER: RefCell<(u32, Weak<Mutex<Option<Writer>>>)> = const { RefCell::new((0, Weak::new())) };
}

/// The block, as in lib/write/packet.ts: the length of the name, the rank, the dtype, the size of the elements and the number of the
/// writer; the shape; the name; the elements.
const SHAPE: usize = 24;
const NAME: usize = 128;
const ELEMENTS: usize = 1024;
const LARGEST: usize = 4096;
const DIMENSIONS: usize = (NAME - SHAPE) / 8;

struct Packet<'a> {
    name: &'a str,
    dtype: DType,
    shape: [u64; DIMENSIONS],
    rank: usize,
    /// The elements that are in the block.
    elements: &'a [u8],
    writer: u32,
}

impl<'a> Packet<'a> {
    fn read(block: &'a [u8]) -> Option<Self> {
        let (head, elements) = block.split_at_checked(ELEMENTS)?;
        let &[name, rank, code, length, writer, _] = head.get(..SHAPE)?.as_chunks::<4>().0 else {
            return None;
        };
        let [name, rank, length] = [name, rank, length].map(|word| u32::from_ne_bytes(word) as usize);
        let mut shape = [0; DIMENSIONS];
        let sizes = head.get(SHAPE..NAME)?.as_chunks::<8>().0.get(..rank)?;
        for (size, given) in shape.iter_mut().zip(sizes) {
            *size = unsigned(f64::from_ne_bytes(*given))?;
        }
        Some(Self {
            name: str::from_utf8(head.get(NAME..)?.get(..name)?).ok()?,
            dtype: u8::try_from(u32::from_ne_bytes(code)).ok().and_then(DType::from_code)?,
            shape,
            rank,
            elements: elements.get(..length)?,
            writer: u32::from_ne_bytes(writer),
        })
    }

    /// Adds the tensor and returns the number of bytes that wait to be flushed. A rejected tensor leaves the file unchanged.
    fn add(&self, slot: &Slot, elements: Option<&[u8]>) -> CoreResult<usize> {
        let bytes = elements.unwrap_or(self.elements);
        let spec = Spec {
            name: self.name,
            shape: self.shape.get(..self.rank).unwrap_or_default(),
            layout: "dense",
            dtype: Some(self.dtype),
            attributes: None,
            components: &[("data", Some(self.dtype), bytes.len() as u64)],
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = slot.as_mut().ok_or_else(gone)?;
        let added = contain(|| writer.add(spec, bytes));
        let refused = added.as_ref().is_err_and(|error| error.code() != Code::Internal);
        let passed = added.and_then(|()| contain(|| writer.pass_on().map(|()| writer.waiting())));
        if passed.is_err() && !refused {
            *slot = None;
        }
        passed
    }
}

fn misread() -> napi::Error {
    misuse("a malformed packet")
}

/// Native memory into which the wrapper packs tensors; null if the runtime rejects external buffers.
#[napi(ts_return_type = "ArrayBuffer | null", catch_unwind)]
pub fn packet_block(env: &Env) -> Option<Unknown<'_>> {
    MAILBOX.with(|mailbox| buffer::over_mailbox(env, mailbox))
}

/// Adds the dense tensor in that memory for the current writer, and returns the number of bytes that wait to be flushed: -1 if the packet
/// has the number of a different writer.
#[napi(catch_unwind)]
pub fn add_packet(env: Env) -> Result<f64> {
    let added = MAILBOX.with(|mailbox| {
        mailbox.read(|block| {
            let packet = Packet::read(block).ok_or_else(misread)?;
            let slot =
                READER.with_borrow(|(number, slot)| (*number == packet.writer).then(|| slot.upgrade()));
            Ok::<_, napi::Error>(slot.flatten().map(|slot| packet.add(&slot, None)))
        })
    })?;
    added.map_or(Ok(-1.0), |added| throw(&env, added).map(|pending| number(pending as u64)))
}

#[napi]
impl NativeWriter {
    /// Makes this writer the receiver of packets. Returns the number that they must contain.
    #[napi(catch_unwind)]
    pub fn receive(&self) -> u32 {
        READER.with_borrow_mut(|reader| {
            *reader = (reader.0.wrapping_add(1).max(1), Arc::downgrade(self.slot()));
            reader.0
        })
    }

    /// Adds the dense tensor in a JavaScript block. `elements`: given if they do not fit into it.
    #[napi(catch_unwind)]
    pub fn add_small(
        &self,
        env: Env,
        block: Uint8ArraySlice<'_>,
        elements: Option<Uint8ArraySlice<'_>>,
    ) -> Result<f64> {
        let packet = Packet::read(&block).ok_or_else(misread)?;
        throw(&env, packet.add(self.slot(), elements.as_deref())).map(|pending| number(pending as u64))
    }
}
