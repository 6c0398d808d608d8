//! The core as a WebAssembly module. Calls return at once: one that misses bytes says which, and the host makes it again with them.
//!
//! The host writes a message into a block of `take`, passes it to `call` with the number of an operation, and reads the bytes that `reply`
//! names. `lib/web/module.ts` is the other side.
#![cfg(target_family = "wasm")]
#![allow(unsafe_code)]

mod files;
mod kernels;
mod message;
mod opening;
mod reading;
mod reply;
#[cfg(feature = "write")]
mod saving;
mod state;
mod tensors;
#[cfg(feature = "write")]
mod values;
#[cfg(feature = "write")]
mod writing;

use std::cell::RefCell;
use std::panic;

use message::Message;
use reply::Reply;
use state::{Operation, State};
use ztensor_core::error::{Code, Error};
use ztensor_core::sources::owned::Owned;

/// What a call returns.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Outcome {
    /// The reply is the result.
    Done,
    /// The reply names the files and ranges that are missing.
    More,
    /// The reply is an error.
    Failed,
}

/// All operations, by number. `lib/web/module.ts` has the same list.
const OPERATIONS: &[Operation] = &[
    opening::seed,
    opening::tell,
    opening::tell_folder,
    opening::add,
    opening::open,
    opening::index,
    opening::close,
    opening::forget,
    tensors::components,
    tensors::attributes,
    tensors::outline,
    tensors::find,
    tensors::find_all,
    tensors::similar,
    tensors::direct,
    tensors::spans,
    tensors::next,
    tensors::check_total,
    tensors::stored_bytes,
    tensors::plan,
    tensors::damage,
    reading::load,
    reading::dequantize,
    reading::take,
    reading::sparse,
    reading::batch,
    reading::stats,
    reading::nearest,
    reading::verify,
    reading::canonical,
    reading::content_digest,
    reading::compare,
    reading::defer,
    reading::fill,
    reading::hashing,
    reading::hash,
    reading::hashed,
    kernels::to_float32,
    kernels::cast_elements,
    kernels::plan_slice,
    kernels::pack_slice,
    kernels::shard_ranges,
    kernels::check_csr,
    kernels::csr_to_dense,
    kernels::csr_coords_dtype,
    kernels::csr_to_coords,
    kernels::check_coo,
    kernels::coo_to_dense,
    kernels::coo_indptr_dtype,
    kernels::coo_to_csr,
    #[cfg(feature = "write")]
    writing::conversion,
    #[cfg(feature = "write")]
    writing::select,
    #[cfg(feature = "write")]
    writing::checkpoint,
    #[cfg(feature = "write")]
    writing::plan_conversion,
    #[cfg(feature = "write")]
    writing::refusals,
    #[cfg(feature = "write")]
    writing::writer,
    #[cfg(feature = "write")]
    writing::abort,
    #[cfg(feature = "write")]
    writing::begin,
    #[cfg(feature = "write")]
    writing::next_written,
    #[cfg(feature = "write")]
    writing::inspect,
    #[cfg(feature = "write")]
    writing::copy,
    #[cfg(feature = "write")]
    writing::block,
    #[cfg(feature = "write")]
    writing::finish,
    #[cfg(feature = "write")]
    saving::create,
    #[cfg(feature = "write")]
    saving::announce,
    #[cfg(feature = "write")]
    saving::push,
    #[cfg(feature = "write")]
    saving::end,
    #[cfg(feature = "write")]
    saving::take_written,
    #[cfg(feature = "write")]
    saving::foresee,
    #[cfg(feature = "write")]
    saving::add_sparse,
    #[cfg(feature = "write")]
    saving::continue_sparse,
    #[cfg(feature = "write")]
    saving::complete,
    #[cfg(feature = "write")]
    saving::block_types,
];

/// The reply, and its address and length as the host reads them.
struct Replied {
    bytes: Owned,
    location: [usize; 2],
}

impl Replied {
    fn set(&mut self, bytes: Owned) {
        self.location = [bytes.as_ptr().addr(), bytes.len()];
        self.bytes = bytes;
    }
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
    static REPLY: RefCell<Replied> =
        RefCell::new(Replied { bytes: Owned::from(Vec::new()), location: [0; 2] });
}

/// Returns a block for a message of `length` bytes, or null if there is not enough memory.
#[unsafe(no_mangle)]
pub extern "C" fn take(length: usize) -> *mut u8 {
    let mut block = Vec::<u8>::new();
    if block.try_reserve_exact(length).is_err() {
        return std::ptr::null_mut();
    }
    block.resize(length, 0);
    Box::leak(block.into_boxed_slice()).as_mut_ptr()
}

/// Returns the address of two numbers: the address of the last reply, and its length.
#[unsafe(no_mangle)]
pub extern "C" fn reply() -> *const [usize; 2] {
    REPLY.with(|reply| reply.try_borrow().map_or(std::ptr::null(), |reply| &raw const reply.location))
}

/// Performs the operation with a number. The message is in a block of [`take`], which this frees.
///
/// # Safety
///
/// `take` has returned `at` for the same length, and nothing else uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn call(operation: usize, at: *mut u8, length: usize) -> u32 {
    // SAFETY: the caller's promise.
    let block = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, length)) };
    let (outcome, bytes) = perform(operation, block);
    REPLY.with_borrow_mut(|reply| reply.set(bytes));
    outcome as u32
}

fn perform(operation: usize, block: Box<[u8]>) -> (Outcome, Owned) {
    STATE.with_borrow_mut(|state| {
        let unknown = || Err(Error::new(Code::Internal, "no such operation"));
        let mut message = Message::new(block);
        let result =
            OPERATIONS.get(operation).map_or_else(unknown, |operation| operation(state, &mut message));
        // A result that was made without all bytes does not count.
        if let Some(missing) = state.missing() {
            return (Outcome::More, missing.into());
        }
        match result {
            Ok(bytes) => (Outcome::Done, bytes),
            Err(error) => {
                let mut reply = Reply::default();
                reply.error(&error);
                (Outcome::Failed, reply.into())
            }
        }
    })
}

/// Makes the message of a panic the reply: the instance traps and is not used again.
fn keep_panic() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string().into_bytes();
        REPLY.with(|reply| {
            if let Ok(mut reply) = reply.try_borrow_mut() {
                reply.set(Owned::from(text));
            }
        });
    }));
}
