//! Files of tensors that the host has. An instance writes one.
#![forbid(unsafe_code)]

use ztensor_core::convert::quantize::{self, Target};
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::kernels::cast::cast;
use ztensor_core::kernels::quantize::BlockEncoder;
use ztensor_core::model::{Attributes, DType, Layout};
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::Stop;
use ztensor_core::write::sparse::{Array, IndexTypes, OwnedArray, Sparse};
use ztensor_core::write::{Finished, Spec, Writer};

use crate::message::Message;
use crate::reply::Reply;
use crate::state::State;
use crate::values::entries;
use crate::writing::{Writing, gone, maybe_text, nothing, put_assembly, settings};

fn internal(message: &str) -> Error {
    Error::new(Code::Internal, message)
}

/// A dtype by its code, or none.
fn maybe_dtype(message: &mut Message) -> Result<Option<DType>> {
    let Some(code) = message.maybe()? else { return Ok(None) };
    let dtype = u8::try_from(code).ok().and_then(DType::from_code);
    dtype.map(Some).ok_or_else(|| internal("no such dtype code"))
}

/// Attributes, or none.
fn maybe_attributes(message: &mut Message) -> Result<Option<Attributes>> {
    if message.flag()? { Ok(Some(entries(message)?.into())) } else { Ok(None) }
}

/// Performs work that leaves the file unchanged if it fails.
fn harmlessly<T>(writing: &mut Writing, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
    work(writing.writer.as_mut().ok_or_else(gone)?)
}

/// Performs work; if it fails, the file is given up.
fn with_writer<T>(writing: &mut Writing, work: impl FnOnce(&mut Writer) -> Result<T>) -> Result<T> {
    let done = harmlessly(writing, work);
    if done.is_err() {
        writing.writer = None;
    }
    done
}

fn pending(count: usize) -> Reply {
    let mut reply = Reply::default();
    reply.count(count);
    reply
}

/// Begins a file. The host keeps its data if the index comes first.
pub fn create(state: &mut State, message: &mut Message) -> Result<Owned> {
    state.writing = Writing::default();
    state.writing.writer = Some(Writer::kept(settings(message)?)?);
    Ok(nothing())
}

/// Announces a tensor. If it is rejected, the file is unchanged.
pub fn announce(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (name, shape, layout) = (message.text()?, message.wholes()?, message.text()?);
    let (dtype, attributes) = (maybe_dtype(message)?, maybe_attributes(message)?);
    let components = (0..message.index()?).map(|_| {
        let (role, dtype) = (message.text()?, maybe_dtype(message)?);
        Ok((role, dtype, message.whole()?))
    });
    let components = components.collect::<Result<Vec<_>>>()?;
    let components: Vec<_> =
        components.iter().map(|(role, dtype, length)| (role.as_str(), *dtype, *length)).collect();
    let spec = Spec {
        name: &name,
        shape: &shape,
        layout: &layout,
        dtype,
        attributes: attributes.as_ref(),
        components: &components,
    };
    harmlessly(&mut state.writing, |writer| writer.begin(spec))?;
    Ok(nothing())
}

/// Adds a piece: elements as they are stored, numbers of a dtype to round to another one, or numbers to quantize. The reply is the
/// number of bytes that wait.
pub fn push(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (from, to, blocks) = (maybe_dtype(message)?, maybe_dtype(message)?, maybe_text(message)?);
    let piece = message.take_rest()?;
    let waiting = with_writer(&mut state.writing, |writer| {
        match (from, to, blocks) {
            (Some(from), _, Some(name)) => {
                let kind = BlockEncoder::of(&name).ok_or_else(|| internal("no such block type"))?;
                quantize::push(writer, from, &piece, kind)?;
            }
            (Some(from), Some(to), None) => {
                let count = piece.len() as u64 / u64::from(from.bits() / 8).max(1);
                let mut rounded = Owned::to_fill(count * u64::from(to.bits() / 8))?;
                cast(from, to, &piece, &mut rounded)?;
                writer.push(&rounded)?;
            }
            _ => writer.push(&piece)?,
        }
        writer.flush_if_full()?;
        Ok(writer.pending())
    })?;
    Ok(pending(waiting).into())
}

/// Ends the announced tensor.
pub fn end(state: &mut State, _message: &mut Message) -> Result<Owned> {
    with_writer(&mut state.writing, Writer::end)?;
    Ok(nothing())
}

/// The bytes that wait.
pub fn take_written(state: &mut State, _message: &mut Message) -> Result<Owned> {
    with_writer(&mut state.writing, |writer| Ok(writer.take())).map(Owned::from)
}

/// Fails if the index of tensors with these names would be longer than readers accept.
pub fn foresee(state: &mut State, message: &mut Message) -> Result<Owned> {
    let names = message.texts()?.into_iter().map(|name| Ok((name, 0)));
    harmlessly(&mut state.writing, |writer| writer.foresee(names))?;
    Ok(nothing())
}

/// Begins a sparse tensor, whose arrays are values, indices and indptr, or values and coords, and writes it as far as the host must take
/// bytes. A tensor that is rejected leaves the file unchanged.
pub fn add_sparse(state: &mut State, message: &mut Message) -> Result<Owned> {
    let (name, shape, attributes) = (message.text()?, message.wholes()?, maybe_attributes(message)?);
    let mut arrays = Vec::<Box<dyn Array>>::new();
    let mut dtypes = Vec::new();
    for _ in 0..message.index()? {
        let dtype = maybe_dtype(message)?.ok_or_else(|| internal("no dtype"))?;
        let range = message.range()?;
        dtypes.push(dtype);
        arrays.push(Box::new(OwnedArray::new(dtype, Owned::from(message.bytes(range).to_vec()))));
    }
    let (layout, layout_name) = match dtypes.len() {
        3 => (Layout::SparseCsr, "sparse_csr"),
        _ => (Layout::SparseCoo, "sparse_coo"),
    };
    let stop = Stop::default();
    let writing = &mut state.writing;
    let begun = harmlessly(writing, |writer| {
        let format = writer.format();
        let sparse = Sparse::checked(layout, &shape, arrays, format.profiles, &stop)?;
        let arranged =
            sparse.strict(format, None, &|| writer.spool(), &stop)?.arranged(format, IndexTypes::Default);
        let components = arranged.components();
        let spec = Spec {
            name: &name,
            shape: &shape,
            layout: layout_name,
            dtype: dtypes.first().copied(),
            attributes: attributes.as_ref(),
            components: &components,
        };
        writer.begin(spec)?;
        drop(components);
        Ok(arranged)
    });
    writing.rest = Some(begun.map_err(|error| error.tensor(&name))?);
    continue_sparse(state, message)
}

/// Continues a sparse tensor after the host took bytes. The reply is the number of bytes that wait, and whether the tensor is complete.
pub fn continue_sparse(state: &mut State, _message: &mut Message) -> Result<Owned> {
    let writing = &mut state.writing;
    let mut arranged = writing.rest.take().ok_or_else(|| internal("no sparse tensor to continue"))?;
    let mut is_done = true;
    let left = with_writer(writing, |writer| {
        while arranged.push_block(writer, &Stop::default())? {
            if writer.must_be_taken() {
                is_done = false;
                return Ok(writer.pending());
            }
        }
        writer.end()?;
        Ok(writer.pending())
    })?;
    if !is_done {
        writing.rest = Some(arranged);
    }
    let mut reply = pending(left);
    reply.flag(is_done);
    Ok(reply.into())
}

/// Ends the file. The reply has the rest of the bytes, and how the host puts the file together if it keeps its data.
pub fn complete(state: &mut State, _message: &mut Message) -> Result<Owned> {
    let writer = state.writing.writer.take().ok_or_else(gone)?;
    let Finished { rest, assembly, .. } = writer.finish()?;
    let mut reply = Reply::default();
    reply.bytes(&rest);
    reply.maybe(assembly, put_assembly);
    Ok(reply.into())
}

/// The block types to which tensors can be quantized: the name, the elements and bytes of a block, the layout and its parameters.
#[allow(clippy::unnecessary_wraps)] // as all operations
pub fn block_types(_state: &mut State, _message: &mut Message) -> Result<Owned> {
    let mut reply = Reply::default();
    let all: Vec<_> =
        BlockEncoder::names().filter_map(|name| Some((name, BlockEncoder::of(name)?))).collect();
    reply.list(all, |reply, (name, kind)| {
        let target = Target::new(kind);
        reply.text(name);
        reply.count(kind.elements());
        reply.count(kind.bytes());
        reply.text(&target.layout);
        let values = target.parameters().values().unwrap_or_default();
        let parameters = values.iter().filter_map(|(name, value)| {
            Some((name.as_text()?.to_owned(), u32::try_from(value.as_integer()?).ok()?))
        });
        reply.list(parameters.collect::<Vec<_>>(), |reply, (name, value)| {
            reply.text(&name);
            reply.number(value.into());
        });
    });
    Ok(reply.into())
}
