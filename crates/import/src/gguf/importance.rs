//! Importance matrices of llama.cpp: for each column of a matrix, the mean of the squares of what it is multiplied by. As GGUF, and in the
//! older format of `llama-imatrix` (`common/imatrix-loader.cpp` of llama.cpp).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{DType, Tensor};
use ztensor_core::open::detect;
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use super::{FORMAT, MAGIC};

const RULE: &str = "importance matrix";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// The weights of columns, by the names of the tensors.
#[derive(Debug, Default)]
pub struct Importance {
    /// A weight for each element of a row, for each matrix of a stack.
    pub weights: BTreeMap<String, Vec<f32>>,
    /// The texts that it was computed from.
    pub datasets: Vec<String>,
    /// How many pieces of text it was computed from; 0 if unknown.
    pub chunks: u32,
}

/// Reads an importance matrix. Fails with `ZT_BAD_MAGIC` for any other file, and with `ZT_TRUNCATED`, `ZT_BAD_INDEX` or `ZT_BAD_SHAPE` for
/// one that is damaged.
pub fn read(source: &dyn ReadAt, limits: &Limits) -> Result<Importance> {
    let first = read_vec(source, 0, source.length().min(4))?;
    let importance = if first == MAGIC { gguf(source, limits) } else { older(source) };
    let importance = importance.map_err(|error| error.rule(RULE))?;
    let finite = |weights: &Vec<f32>| weights.iter().all(|weight| weight.is_finite());
    if let Some((name, _)) = importance.weights.iter().find(|(_, weights)| !finite(weights)) {
        let message = "a weight of the importance matrix is not a finite number";
        return Err(Error::new(Code::BadIndex, message).tensor(name).rule(RULE));
    }
    Ok(importance)
}

fn read_vec(source: &dyn ReadAt, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; ztensor_core::checked::index(length, "a part of the importance matrix")?];
    source.read_at(offset, &mut bytes, Stop::never())?;
    Ok(bytes)
}

fn gguf(source: &dyn ReadAt, limits: &Limits) -> Result<Importance> {
    const ROWS: &[ztensor_core::formats::Format] = &[FORMAT];
    let catalog = detect::parse(source, Formats::of(&[ROWS]), limits)?;
    let mut importance = Importance::default();
    let attributes = catalog.attributes.values()?;
    let find = |wanted: &str| {
        attributes.iter().find(|(key, _)| key.as_text() == Some(wanted)).map(|(_, value)| value)
    };
    let datasets = find("imatrix.datasets").and_then(Value::as_array);
    let chunks = find("imatrix.chunk_count").and_then(Value::as_integer);
    if datasets.is_none() || chunks.is_none() {
        let message =
            "the GGUF file is no importance matrix: it has no imatrix.datasets and imatrix.chunk_count";
        return Err(Error::new(Code::BadMagic, message));
    }
    let texts = datasets.into_iter().flatten().filter_map(Value::as_text);
    importance.datasets = texts.map(str::to_owned).collect();
    importance.chunks = chunks.and_then(|chunks| u32::try_from(chunks).ok()).unwrap_or(0);
    for tensor in catalog.iter() {
        let Some(name) = tensor.name().strip_suffix(SUMS) else { continue };
        let counts = catalog.find(&format!("{name}{COUNTS}")).and_then(|ordinal| catalog.tensor(ordinal));
        let counts =
            counts.ok_or_else(|| Error::new(Code::BadIndex, "the sums have no counts").tensor(name))?;
        let (mut sums, counts) = (floats(source, tensor)?, floats(source, counts)?);
        let row =
            sums.len().checked_div(counts.len()).filter(|&row| row > 0 && row * counts.len() == sums.len());
        let row = row.ok_or_else(|| {
            let message = format!("{} sums for {} counts", sums.len(), counts.len());
            Error::new(Code::BadShape, message).tensor(name)
        })?;
        for (sums, count) in sums.chunks_mut(row).zip(&counts) {
            let count = count.round();
            let mean = |sum: &mut f32| *sum = if count > 0.0 { *sum / count } else { 1.0 };
            sums.iter_mut().for_each(mean);
        }
        importance.weights.insert(name.to_owned(), sums);
    }
    Ok(importance)
}

/// Returns the elements of a dense float32 tensor.
fn floats(source: &dyn ReadAt, tensor: Tensor<'_>) -> Result<Vec<f32>> {
    let data = tensor.data().filter(|data| data.is_raw_blob() && data.dtype == Some(DType::Float32));
    let data = data.ok_or_else(|| {
        let message = "the sums and counts of an importance matrix must be float32";
        Error::new(Code::BadDtype, message).tensor(tensor.name())
    })?;
    let bytes = read_vec(source, data.offset(), data.stored_length())?;
    let swapped = data.is_swapped();
    let float =
        |&bytes: &[u8; 4]| if swapped { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) };
    Ok(bytes.as_chunks::<4>().0.iter().map(float).collect())
}

/// The older format: little-endian int32 and float32 in sequence.
fn older(source: &dyn ReadAt) -> Result<Importance> {
    let mut cursor = Cursor { source, at: 0 };
    let entries = cursor.count("the number of entries")?;
    let mut importance = Importance::default();
    for _ in 0..entries {
        let length = cursor.count("the length of a name")?;
        let name = cursor.take(length)?;
        let name = String::from_utf8(name).map_err(|_| cursor.wrong("a name is not UTF-8"))?;
        let calls = cursor.int()?;
        let values = cursor.count("the number of weights")?;
        let bytes = cursor.take(values.saturating_mul(4))?;
        #[expect(clippy::cast_precision_loss)] // as llama.cpp divides
        let mean = |&bytes: &[u8; 4]| f32::from_le_bytes(bytes) / if calls > 0 { calls as f32 } else { 1.0 };
        let weights = bytes.as_chunks::<4>().0.iter().map(mean).collect();
        if importance.weights.insert(name.clone(), weights).is_some() {
            return Err(cursor.wrong(&format!("the name {:?} appears twice", short(&name, 80))));
        }
    }
    // Files by old versions end here.
    if cursor.at < source.length() {
        importance.chunks = u32::try_from(cursor.int()?).unwrap_or(0);
        let length =
            cursor.int().ok().and_then(|length| u64::try_from(length).ok()).filter(|&length| length > 0);
        if let Some(text) = length.and_then(|length| cursor.take(length).ok()) {
            importance.datasets.push(String::from_utf8_lossy(&text).into_owned());
        }
    }
    Ok(importance)
}

struct Cursor<'s> {
    source: &'s dyn ReadAt,
    at: u64,
}

impl Cursor<'_> {
    fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        if self.source.length() - self.at < length {
            let message = format!(
                "{length} bytes at offset {} extend past the file's {}",
                self.at,
                self.source.length()
            );
            return Err(Error::new(Code::Truncated, message).at(self.at));
        }
        let bytes = read_vec(self.source, self.at, length)?;
        self.at += length;
        Ok(bytes)
    }

    fn int(&mut self) -> Result<i32> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0, |&bytes| i32::from_le_bytes(bytes)))
    }

    /// Reads a positive number.
    fn count(&mut self, what: &str) -> Result<u64> {
        let count = self.int()?;
        u64::try_from(count).ok().filter(|&count| count > 0).ok_or_else(|| {
            self.wrong(&format!(
                "{what} is {count}: this is no importance matrix of llama.cpp, or a damaged one"
            ))
        })
    }

    fn wrong(&self, message: &str) -> Error {
        Error::new(Code::BadIndex, message).at(self.at)
    }
}
