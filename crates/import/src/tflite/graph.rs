//! The parts of a model that its tensors refer to: buffers and subgraphs.
#![forbid(unsafe_code)]

use ztensor_core::checked::end_within;
use ztensor_core::error::{Code, Error, Result};

use super::dtypes;
use crate::flatbuffer::{Flat, Table, Vector};
use crate::limits::FLATBUFFER_NAME_BYTES;

const BUFFER: &str = "TFLite schema: Buffer";

/// A byte range of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    pub at: u64,
    pub length: u64,
}

/// The vector of buffers.
#[derive(Clone, Copy)]
pub struct Buffers {
    pub positions: Option<Vector>,
    pub total: u64,
}

impl Buffers {
    /// Returns the bytes of a buffer, or `None` if it is empty. Fails with `ZT_BAD_INDEX` if there is no such buffer, and with
    /// `ZT_TRUNCATED` if its bytes extend past the file.
    pub fn find(self, flat: &mut Flat<'_>, index: u32) -> Result<Option<Run>> {
        let position = self
            .positions
            .and_then(|positions| positions.position(u64::from(index)))
            .ok_or_else(|| Error::new(Code::BadIndex, format!("there is no buffer {index}")).rule(BUFFER))?;
        let buffer = flat.table_at(position)?;
        // 0 and 1 mean that the bytes are in the flatbuffer.
        let (offset, length) = (flat.u64(buffer, 1)?, flat.u64(buffer, 2)?);
        if offset > 1 {
            if end_within(offset, length, self.total).is_none() {
                let message =
                    format!("buffer {index} of {length} bytes at {offset} extends past the end of the file");
                return Err(Error::new(Code::Truncated, message).at(offset).rule(BUFFER));
            }
            return Ok(Some(Run { at: offset, length }).filter(|run| run.length > 0));
        }
        let data = flat.vector(buffer, 0, 1)?;
        Ok(data.filter(|data| data.count > 0).map(|data| Run { at: data.at, length: data.count }))
    }
}

/// A subgraph.
pub struct Graph {
    /// The prefix of its tensor names.
    pub path: String,
    pub tensors: Option<Vector>,
}

impl Graph {
    /// Returns the name of a tensor.
    pub fn name(&self, flat: &mut Flat<'_>, tensor: Table, number: usize) -> Result<String> {
        let Self { path, .. } = self;
        flat.charge(path.len() as u64)?;
        let own = flat.text(tensor, 3, FLATBUFFER_NAME_BYTES)?.unwrap_or_default();
        Ok(if own.is_empty() { format!("{path}tensor{number}") } else { format!("{path}{own}") })
    }

    /// Returns the name of the tensor with this number, or `None` if it does not exist.
    pub fn name_of(&self, flat: &mut Flat<'_>, number: i32) -> Result<Option<String>> {
        let Ok(index) = usize::try_from(number) else { return Ok(None) };
        let Some(position) = self.tensors.and_then(|all| all.position(index as u64)) else { return Ok(None) };
        let tensor = flat.table_at(position)?;
        self.name(flat, tensor, index).map(Some)
    }
}

/// Returns the type of a tensor.
pub fn kind(flat: &mut Flat<'_>, tensor: Table) -> Result<(u8, Option<&'static dtypes::ElementType>)> {
    let number = flat.u8(tensor, 1)?;
    Ok((number, dtypes::kind(number)))
}
