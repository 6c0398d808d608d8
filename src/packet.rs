//! A small dense tensor as the wrapper packs it, in one block of bytes: each argument of its own would cost as much as the
//! rest of the call. Where the runtime lets us, the block is memory of ours, and a call has no argument at all.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use napi::bindgen_prelude::{Uint8ArraySlice, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Result as CoreResult};
use ztensor_core::model::DType;
use ztensor_core::write::{Spec, Writer};

use crate::buffer::{self, Mailbox};
use crate::error::{misuse, throw};
use crate::index::{number, unsigned};
use crate::panic::contain;
use crate::writer::{NativeWriter, Slot, gone};

thread_local! {
    static MAILBOX: Arc<Mailbox> = Mailbox::new(ELEMENTS + LARGEST);
    /// The writer that the mailbox is read for, by its number.
    static READER: RefCell<(u32, Weak<Mutex<Option<Writer>>>)> = const { RefCell::new((0, Weak::new())) };
}

/// The block, as lib/write/packet.ts has it: the name's bytes, the rank, the dtype, the bytes of the elements and the number of the
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
    /// Those of them that stand in the block.
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

    /// Adds the tensor and says how many bytes wait to be flushed. What is refused leaves the file as it was.
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
    misuse("a packet of another form")
}

/// Memory of ours for the wrapper to pack tensors into; null where the runtime refuses external buffers.
#[napi(ts_return_type = "ArrayBuffer | null", catch_unwind)]
pub fn packet_block(env: &Env) -> Option<Unknown<'_>> {
    MAILBOX.with(|mailbox| buffer::over_mailbox(env, mailbox))
}

/// Adds the dense tensor that stands in that memory, for the writer that asked last, and says how many bytes wait to be
/// flushed: -1 where that is not the writer whose number the packet bears.
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
    /// From now on packets are for this writer. Gives the number that they have to bear.
    #[napi(catch_unwind)]
    pub fn receive(&self) -> u32 {
        READER.with_borrow_mut(|reader| {
            *reader = (reader.0.wrapping_add(1).max(1), Arc::downgrade(self.slot()));
            reader.0
        })
    }

    /// Adds the dense tensor in a block of JavaScript's. `elements`: where they are too many for it.
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
