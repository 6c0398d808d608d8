//! The entries of a checkpoint's table (`tensor_bundle.proto`, `tensor_shape.proto`, `tensor_slice.proto` of TensorFlow).
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::limits::Limits;
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use super::table::Entry;
use crate::protobuf::{Run, Value, Walker};

const OF_HEADER: &str = "tensor_bundle.proto: BundleHeaderProto";
const OF_ENTRY: &str = "tensor_bundle.proto: BundleEntryProto";
/// `kTensorBundleVersion`: `min_consumer` states the version that a reader must support.
const VERSION: u64 = 1;
/// How often the bytes of a value are read: a message, and the messages in it.
const LOOKS: u64 = 8;

/// The header of a checkpoint.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of data files.
    pub shards: u64,
    pub big_endian: bool,
    /// The format version of the writer.
    pub producer: u64,
}

impl Header {
    /// Reads the entry with the empty key. Fails with `ZT_BAD_MAGIC` if it is not the header of a checkpoint, and with
    /// `ZT_UNSUPPORTED_VERSION` if its version is unsupported.
    pub fn read(entry: &Entry<'_>, stop: &Stop) -> Result<Self> {
        Self::fields(entry, stop).map_err(|error| error.at(entry.at).rule(OF_HEADER))
    }

    fn fields(entry: &Entry<'_>, stop: &Stop) -> Result<Self> {
        let no_header =
            || Error::new(Code::BadMagic, "the table does not begin with the header of a checkpoint");
        if !entry.key.is_empty() {
            return Err(no_header());
        }
        let (source, mut message) = Source::of(entry);
        let mut walker = Walker::new(&source, stop, source.looks());
        let (mut shards, mut endianness, mut version) = (0, 0, None);
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                // `SavedTensorSlices.meta` has the field number that is now the number of shards.
                (1, Value::Bytes(_)) => {
                    let message = "this is a checkpoint of TensorFlow's first format (SaverDef.V1), which is not supported: restore \
                                   it with TensorFlow, and save it again";
                    return Err(Error::new(Code::UnsupportedVersion, message));
                }
                (1, Value::Varint(number)) => shards = number,
                (2, Value::Varint(number)) => endianness = number,
                (3, Value::Bytes(run)) => version = Some(versions(&mut walker, run)?),
                _ => {}
            }
        }
        let (producer, min) = version.ok_or_else(no_header)?;
        if min > VERSION {
            let message = format!(
                "the checkpoint requires readers of version {min}, but this reader supports version {VERSION}"
            );
            return Err(Error::new(Code::UnsupportedVersion, message));
        }
        if shards > u64::from(u32::MAX >> 1) || endianness > 1 {
            let message = format!("{shards} files of data, and an endianness of {endianness}");
            return Err(Error::new(Code::BadIndex, message));
        }
        Ok(Self { shards, big_endian: endianness == 1, producer })
    }
}

/// Reads `VersionDef`: the version of the writer, and the version that a reader must support.
fn versions(walker: &mut Walker<'_>, mut message: Run) -> Result<(u64, u64)> {
    let (mut producer, mut min) = (0, 0);
    while let Some(field) = walker.next(&mut message)? {
        match (field.number, field.value) {
            (1, Value::Varint(number)) => producer = number,
            (2, Value::Varint(number)) => min = number,
            _ => {}
        }
    }
    Ok((producer, min))
}

/// The entry of a tensor or of a slice of one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tensor {
    /// Its offset in the index.
    pub at: u64,
    /// A `DataType` number.
    pub kind: u64,
    pub shape: Vec<u64>,
    pub shard: u64,
    pub offset: u64,
    pub size: u64,
    /// The masked checksum of its bytes.
    pub sum: u32,
    /// The slices that hold its data, stored under other keys. Empty if the entry has its own data.
    pub slices: Vec<Slice>,
}

/// A slice of a tensor: start and length in each dimension; the length is `None` for the whole dimension.
pub type Slice = Vec<(u64, Option<u64>)>;

impl Tensor {
    pub fn read(entry: &Entry<'_>, limits: &Limits, stop: &Stop) -> Result<Self> {
        Self::fields(entry, limits, stop).map_err(|error| error.at(entry.at).rule(OF_ENTRY))
    }

    fn fields(entry: &Entry<'_>, limits: &Limits, stop: &Stop) -> Result<Self> {
        let mut tensor = Self { at: entry.at, ..Self::default() };
        let (source, mut message) = Source::of(entry);
        let mut walker = Walker::new(&source, stop, source.looks());
        while let Some(field) = walker.next(&mut message)? {
            match (field.number, field.value) {
                (1, Value::Varint(kind)) => tensor.kind = kind,
                (2, Value::Bytes(run)) => tensor.shape = shape(&mut walker, run, limits)?,
                (3, Value::Varint(shard)) => tensor.shard = shard,
                (4, Value::Varint(offset)) => tensor.offset = offset,
                (5, Value::Varint(size)) => tensor.size = size,
                (6, Value::Fixed(run)) if run.length() == 4 => {
                    tensor.sum = walker.bytes(run)?.try_into().map_or(0, u32::from_le_bytes);
                }
                (7, Value::Bytes(run)) => tensor.slices.push(slice(&mut walker, run, limits)?),
                _ => {}
            }
        }
        Ok(tensor)
    }
}

fn shape(walker: &mut Walker<'_>, mut message: Run, limits: &Limits) -> Result<Vec<u64>> {
    let mut shape = Vec::new();
    while let Some(field) = walker.next(&mut message)? {
        match (field.number, field.value) {
            (2, Value::Bytes(mut dim)) => {
                let mut size = 0;
                while let Some(field) = walker.next(&mut dim)? {
                    if let (1, Value::Varint(number)) = (field.number, field.value) {
                        size = number;
                    }
                }
                if size.cast_signed() < 0 {
                    let message = format!("a dimension is {}", size.cast_signed());
                    return Err(Error::new(Code::BadShape, message));
                }
                limits.push_dim(&mut shape, size)?;
            }
            (3, Value::Varint(1..)) => return Err(Error::new(Code::BadShape, "the shape has no known rank")),
            _ => {}
        }
    }
    Ok(shape)
}

fn slice(walker: &mut Walker<'_>, mut message: Run, limits: &Limits) -> Result<Slice> {
    let mut slice = Slice::new();
    while let Some(field) = walker.next(&mut message)? {
        let (1, Value::Bytes(mut extent)) = (field.number, field.value) else { continue };
        if slice.len() == limits.max_rank as usize {
            let message = format!("a slice has more than {} dimensions", slice.len());
            return Err(Error::new(Code::Limit, message).option("maxRank"));
        }
        let (mut start, mut length) = (0, None);
        while let Some(field) = walker.next(&mut extent)? {
            match (field.number, field.value) {
                (1, Value::Varint(number)) => start = number,
                (2, Value::Varint(number)) => length = Some(number),
                _ => {}
            }
        }
        slice.push((start, length));
    }
    Ok(slice)
}

/// The value of an entry at its position in the file. It appears one byte longer, so that a field that extends past the value is not
/// mistaken for a truncated file.
struct Source<'e> {
    value: &'e [u8],
    at: u64,
}

impl<'e> Source<'e> {
    fn of(entry: &Entry<'e>) -> (Self, Run) {
        let Entry { value, at, .. } = *entry;
        (Self { value, at }, Run { at, end: at.saturating_add(value.len() as u64) })
    }

    fn looks(&self) -> u64 {
        (self.value.len() as u64).saturating_mul(LOOKS)
    }
}

impl ReadAt for Source<'_> {
    fn length(&self) -> u64 {
        self.at.saturating_add(self.value.len() as u64).saturating_add(1)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8], _stop: &Stop) -> Result<()> {
        let rest = offset.checked_sub(self.at).and_then(|start| {
            let length = (self.value.len() as u64).checked_sub(start)?;
            checked::slice(self.value, start, length)
        });
        let rest = rest.unwrap_or_default();
        let shared = rest.len().min(buffer.len());
        let (own, behind) = buffer.split_at_mut(shared);
        own.copy_from_slice(rest.get(..shared).unwrap_or_default());
        behind.fill(0);
        Ok(())
    }
}
