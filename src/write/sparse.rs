//! Sparse tensors from the caller's arrays: copied on the JavaScript thread, one piece in each turn of the event loop, and then checked,
//! arranged and written on worker threads. JavaScript may change or detach the arrays at any time, so only the copies are used.

use std::sync::{Arc, PoisonError};

use napi::bindgen_prelude::{JsObjectValue, Object, ObjectRef, Uint8ArraySlice, Unknown};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::error::{Code, Error as CoreError, Result as CoreResult};
use ztensor_core::model::{Attributes, DType, Layout};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;
use ztensor_core::work::lanes::Lane;
use ztensor_core::write::sparse::{Arranged, Array, IndexTypes, OwnedArray, Sparse};
use ztensor_core::write::{Spec, Writer};

use crate::js::control::Control;
use crate::js::error::{misuse, throw};
use crate::js::panic::contain;
use crate::js::task::{spawn, spawn_gathered};
use crate::values::arguments::{dtype, size};
use crate::values::input;
use crate::write::writer::{NativeWriter, Rest, Slot, gone, with_writer};
use ztensor_handover::number;

/// Bytes copied on the JavaScript thread before yielding to the event loop: some 3 ms.
const PIECE: usize = 8 << 20;

/// A sparse tensor of the caller.
#[napi(object, object_to_js = false)]
pub struct SparseSpec<'env> {
    pub name: String,
    pub shape: Vec<f64>,
    pub attributes: Option<Unknown<'env>>,
    /// The dtypes of its arrays, by code.
    pub dtypes: Vec<u32>,
}

/// The progress of a sparse tensor.
#[napi(object, object_from_js = false)]
pub struct SparseStep {
    /// Bytes that wait to be flushed.
    pub pending: f64,
    /// False if the wrapper must take the bytes before it can continue.
    pub done: bool,
}

/// The description of the tensor, for another thread.
struct Tensor {
    name: String,
    shape: Vec<u64>,
    attributes: Option<Attributes>,
    dtypes: Vec<DType>,
}

impl Tensor {
    fn of(spec: SparseSpec<'_>) -> Result<Self> {
        let known = |&code| dtype(Some(code))?.ok_or_else(|| misuse("no dtype"));
        Ok(Self {
            name: spec.name,
            shape: spec.shape.into_iter().map(size).collect::<Result<_>>()?,
            attributes: spec.attributes.map(input::attributes).transpose()?,
            dtypes: spec.dtypes.iter().map(known).collect::<Result<_>>()?,
        })
    }

    fn layout(&self) -> (Layout, &'static str) {
        match self.dtypes.len() {
            3 => (Layout::SparseCsr, "sparse_csr"),
            _ => (Layout::SparseCoo, "sparse_coo"),
        }
    }

    /// Begins the tensor in the writer's file. A rejected tensor leaves the file unchanged.
    fn begin(&self, arrays: Vec<Owned>, slot: &Slot, stop: &Stop) -> CoreResult<Arranged> {
        let given = arrays.into_iter().zip(&self.dtypes);
        let arrays = given.map(|(bytes, &dtype)| Box::new(OwnedArray::new(dtype, bytes)) as Box<dyn Array>);
        let (layout, name) = self.layout();
        let format = harmlessly(slot, |writer| Ok(writer.format()))?;
        let sparse = Sparse::checked(layout, &self.shape, arrays.collect(), format.profiles, stop)?;
        let spool = || harmlessly(slot, |writer| writer.spool());
        let arranged = sparse.strict(format, None, &spool, stop)?.arranged(format, IndexTypes::Default);
        let spec = Spec {
            name: &self.name,
            shape: &self.shape,
            layout: name,
            dtype: self.dtypes.first().copied(),
            attributes: self.attributes.as_ref(),
            components: &arranged.components(),
        };
        harmlessly(slot, |writer| writer.begin(spec))?;
        Ok(arranged)
    }
}

fn harmlessly<T>(slot: &Slot, work: impl FnOnce(&mut Writer) -> CoreResult<T>) -> CoreResult<T> {
    let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    slot.as_mut().ok_or_else(gone).and_then(|writer| contain(|| work(writer)))
}

/// The progress of copying the caller's arrays into native memory.
struct Copying {
    /// The JavaScript list of arrays.
    arrays: Option<ObjectRef<false>>,
    copies: Vec<Owned>,
    /// The array being copied, and the bytes copied of it.
    at: usize,
    filled: usize,
}

impl Copying {
    fn of(env: &Env, arrays: &Object<'_>, count: usize) -> Result<Self> {
        let mut copies = Vec::with_capacity(count);
        for at in 0..count {
            let array: Uint8ArraySlice<'_> = arrays.get_element(element(at))?;
            copies.push(throw(env, Owned::to_fill(array.len() as u64))?);
        }
        Ok(Self { arrays: Some(arrays.create_ref()?), copies, at: 0, filled: 0 })
    }

    /// Copies a few MiB. Returns the copies once they are complete.
    fn step(&mut self, env: &Env) -> CoreResult<Option<Vec<Owned>>> {
        let outcome = self.copy(env);
        if !matches!(outcome, Ok(None))
            && let Some(arrays) = self.arrays.take()
        {
            arrays.unref(env).map_err(internal)?;
        }
        outcome
    }

    fn copy(&mut self, env: &Env) -> CoreResult<Option<Vec<Owned>>> {
        let Some(arrays) = &self.arrays else { return Err(CoreError::new(Code::Internal, "copied already")) };
        let arrays = arrays.get_value(env).map_err(internal)?;
        let mut budget = PIECE;
        while let Some(copy) = self.copies.get_mut(self.at) {
            let array: Uint8ArraySlice<'_> = arrays.get_element(element(self.at)).map_err(internal)?;
            if array.len() != copy.len() {
                let message = "the array to write was detached or resized before it was written";
                return Err(CoreError::new(Code::Closed, message));
            }
            let end = copy.len().min(self.filled.saturating_add(budget));
            let (from, to) = (array.get(self.filled..end), copy.get_mut(self.filled..end));
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
            }
            budget -= end - self.filled;
            self.filled = end;
            if end < copy.len() {
                return Ok(None);
            }
            (self.at, self.filled) = (self.at + 1, 0);
        }
        Ok(Some(std::mem::take(&mut self.copies)))
    }
}

fn element(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn internal(error: napi::Error) -> CoreError {
    CoreError::new(Code::Internal, error.to_string())
}

/// Writes a tensor that was begun, as far as the wrapper can accept it. Returns the number of waiting bytes, and whether it is complete.
fn write(slot: &Slot, rest: &Rest, mut arranged: Arranged, stop: &Stop) -> CoreResult<(usize, bool)> {
    with_writer(slot, |writer| {
        while arranged.push_block(writer, stop)? {
            if writer.must_be_taken() {
                *rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(arranged);
                return Ok((writer.pending(), false));
            }
        }
        writer.end()?;
        Ok((writer.pending(), true))
    })
}

#[allow(clippy::unnecessary_wraps)] // as a task asks for it
fn to_step(_: Env, (pending, done): (usize, bool)) -> Result<SparseStep> {
    Ok(SparseStep { pending: number(pending as u64), done })
}

#[napi]
impl NativeWriter {
    /// Adds a sparse tensor, whose arrays are bytes in the order values, indices, indptr, or values, coords. A tensor that is rejected
    /// before anything is written leaves the file unchanged; `isOpen` returns whether it is.
    #[napi(ts_return_type = "Promise<SparseStep>", catch_unwind)]
    pub fn add_sparse<'env>(
        &self,
        env: &'env Env,
        spec: SparseSpec<'_>,
        arrays: Object<'_>,
        control: &Control,
    ) -> Result<Object<'env>> {
        let tensor = Tensor::of(spec)?;
        let mut copying = Copying::of(env, &arrays, tensor.dtypes.len())?;
        let (slot, rest, stop) =
            (Arc::clone(self.slot()), Arc::clone(self.rest()), control.watch.stop.clone());
        let job = move |arrays| {
            let arranged = contain(|| tensor.begin(arrays, &slot, &stop));
            write(&slot, &rest, arranged.map_err(|error| error.tensor(&tensor.name))?, &stop)
        };
        spawn_gathered(env, self.or_remote(Lane::Step), control, move |env| copying.step(env), job, to_step)
    }

    /// Continues a sparse tensor after the waiting bytes were taken.
    #[napi(ts_return_type = "Promise<SparseStep>", catch_unwind)]
    pub fn continue_sparse<'env>(&self, env: &'env Env, control: &Control) -> Result<Object<'env>> {
        let arranged = self.rest().lock().unwrap_or_else(PoisonError::into_inner).take();
        let arranged = arranged.ok_or_else(|| misuse("no sparse tensor to continue"))?;
        let (slot, rest, stop) =
            (Arc::clone(self.slot()), Arc::clone(self.rest()), control.watch.stop.clone());
        spawn(env, self.or_remote(Lane::Step), control, move || write(&slot, &rest, arranged, &stop), to_step)
    }

    /// Whether the file can be continued.
    #[napi(getter, catch_unwind)]
    pub fn is_open(&self) -> bool {
        self.slot().lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}
