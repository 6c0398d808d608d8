//! Importance matrices of llama.cpp: for each column of a matrix, the mean of the squares of what it is multiplied by. As GGUF, and in the
//! older format of `llama-imatrix` (`common/imatrix-loader.cpp` of llama.cpp).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ciborium::Value;
use ztensor_core::error::{Code, Error, Result, short};
use ztensor_core::formats::Formats;
use ztensor_core::limits::Limits;
use ztensor_core::model::{DType, Tensor};
use ztensor_core::open::detect;
use ztensor_core::sources::ReadAt;
use ztensor_core::work::Stop;

use super::FORMAT;
use super::header::MAGIC;

const RULE: &str = "importance matrix";
const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// An importance matrix that is open: its entries by the names of the tensors. Weights are read when they are asked for.
pub struct Importance {
    source: Box<dyn ReadAt>,
    entries: BTreeMap<String, Entry>,
    /// Bytes that entries may still read: together no more than the file, since no two share any.
    left: AtomicU64,
    /// The texts that it was computed from.
    pub datasets: Vec<String>,
    /// How many pieces of text it was computed from; 0 if unknown.
    pub chunks: u32,
}

/// Where the weights of a tensor are: one for each element of a row, for each matrix of a stack.
struct Entry {
    sums: Floats,
    divisors: Divisors,
}

/// What sums are divided by.
enum Divisors {
    /// One number for all.
    One(f32),
    /// A number for each matrix.
    Counts(Floats),
}

/// A range of float32.
struct Floats {
    offset: u64,
    bytes: u64,
    is_swapped: bool,
}

impl Importance {
    /// Reads which entries an importance matrix has. Fails with `ZT_BAD_MAGIC` for any other file, and with `ZT_TRUNCATED`, `ZT_BAD_INDEX`
    /// or `ZT_BAD_SHAPE` for one that is damaged.
    pub fn open(source: Box<dyn ReadAt>, limits: &Limits) -> Result<Self> {
        let first = read_vec(&*source, 0, source.length().min(4))?;
        let left = AtomicU64::new(source.length());
        let mut opened = Self { source, entries: BTreeMap::new(), left, datasets: Vec::new(), chunks: 0 };
        let found = if first == MAGIC { opened.gguf(limits) } else { opened.older() };
        found.map_err(|error| error.rule(RULE))?;
        Ok(opened)
    }

    /// Returns the number of its entries.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Reads the weights of a tensor; `None` if it has none. Fails with `ZT_BAD_INDEX` for weights that are not finite.
    pub fn weights(&self, name: &str) -> Result<Option<Vec<f32>>> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let weights = self.read(entry).map_err(|error| error.tensor(name).rule(RULE))?;
        if weights.iter().all(|weight| weight.is_finite()) {
            return Ok(Some(weights));
        }
        let message = "a weight of the importance matrix is not a finite number";
        Err(Error::new(Code::BadIndex, message).tensor(name).rule(RULE))
    }

    fn read(&self, Entry { sums, divisors }: &Entry) -> Result<Vec<f32>> {
        let mut sums = self.floats(sums)?;
        match divisors {
            Divisors::One(divisor) => sums.iter_mut().for_each(|sum| *sum /= divisor),
            Divisors::Counts(counts) => {
                let counts = self.floats(counts)?;
                let row = sums.len() / counts.len().max(1);
                for (sums, count) in sums.chunks_mut(row.max(1)).zip(&counts) {
                    let count = count.round();
                    let mean = |sum: &mut f32| *sum = if count > 0.0 { *sum / count } else { 1.0 };
                    sums.iter_mut().for_each(mean);
                }
            }
        }
        Ok(sums)
    }

    fn floats(&self, &Floats { offset, bytes, is_swapped }: &Floats) -> Result<Vec<f32>> {
        let left = |left: u64| left.checked_sub(bytes);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_err() {
            let message =
                "the entries of the importance matrix share bytes: together they have more than the file";
            return Err(Error::new(Code::Limit, message));
        }
        let bytes = read_vec(&*self.source, offset, bytes)?;
        let float =
            |&bytes: &[u8; 4]| if is_swapped { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) };
        Ok(bytes.as_chunks::<4>().0.iter().map(float).collect())
    }

    fn gguf(&mut self, limits: &Limits) -> Result<()> {
        const ROWS: &[ztensor_core::formats::Format] = &[FORMAT];
        let catalog = detect::parse(&*self.source, Formats::of(&[ROWS]), limits)?;
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
        self.datasets = texts.map(str::to_owned).collect();
        self.chunks = chunks.and_then(|chunks| u32::try_from(chunks).ok()).unwrap_or(0);
        for tensor in catalog.iter() {
            let Some(name) = tensor.name().strip_suffix(SUMS) else { continue };
            let counts = catalog.find(&format!("{name}{COUNTS}")).and_then(|ordinal| catalog.tensor(ordinal));
            let counts =
                counts.ok_or_else(|| Error::new(Code::BadIndex, "the sums have no counts").tensor(name))?;
            let (sums, counts) = (place(tensor)?, place(counts)?);
            let [all, of] = [sums.bytes / 4, counts.bytes / 4];
            if all.checked_div(of).is_none_or(|row| row == 0 || row * of != all) {
                let message = format!("{all} sums for {of} counts");
                return Err(Error::new(Code::BadShape, message).tensor(name));
            }
            self.entries.insert(name.to_owned(), Entry { sums, divisors: Divisors::Counts(counts) });
        }
        Ok(())
    }

    /// The older format: little-endian int32 and float32 in sequence.
    fn older(&mut self) -> Result<()> {
        let mut cursor = Cursor { source: &*self.source, at: 0 };
        let entries = cursor.count("the number of entries")?;
        for _ in 0..entries {
            let length = cursor.count("the length of a name")?;
            let name = cursor.take(length)?;
            let name = String::from_utf8(name).map_err(|_| cursor.wrong("a name is not UTF-8"))?;
            let calls = cursor.int()?;
            let bytes = cursor.count("the number of weights")?.saturating_mul(4);
            let sums = Floats { offset: cursor.pass(bytes)?, bytes, is_swapped: false };
            #[expect(clippy::cast_precision_loss)] // as llama.cpp divides
            let divisors = Divisors::One(if calls > 0 { calls as f32 } else { 1.0 });
            if self.entries.contains_key(&name) {
                return Err(cursor.wrong(&format!("the name {:?} appears twice", short(&name, 80))));
            }
            self.entries.insert(name, Entry { sums, divisors });
        }
        // Files by old versions end here.
        if cursor.at < self.source.length() {
            self.chunks = u32::try_from(cursor.int()?).unwrap_or(0);
            let length =
                cursor.int().ok().and_then(|length| u64::try_from(length).ok()).filter(|&length| length > 0);
            if let Some(text) = length.and_then(|length| cursor.take(length).ok()) {
                self.datasets.push(String::from_utf8_lossy(&text).into_owned());
            }
        }
        Ok(())
    }
}

fn read_vec(source: &dyn ReadAt, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; ztensor_core::checked::index(length, "a part of the importance matrix")?];
    source.read_at(offset, &mut bytes, Stop::never())?;
    Ok(bytes)
}

/// Returns where the elements of a dense float32 tensor are.
fn place(tensor: Tensor<'_>) -> Result<Floats> {
    let data = tensor.data().filter(|data| data.is_raw_blob() && data.dtype == Some(DType::Float32));
    let data = data.ok_or_else(|| {
        let message = "the sums and counts of an importance matrix must be float32";
        Error::new(Code::BadDtype, message).tensor(tensor.name())
    })?;
    Ok(Floats { offset: data.offset(), bytes: data.stored_length(), is_swapped: data.is_swapped() })
}

struct Cursor<'s> {
    source: &'s dyn ReadAt,
    at: u64,
}

impl Cursor<'_> {
    fn take(&mut self, length: u64) -> Result<Vec<u8>> {
        let offset = self.pass(length)?;
        read_vec(self.source, offset, length)
    }

    /// Passes bytes without reading them. Returns their offset.
    fn pass(&mut self, length: u64) -> Result<u64> {
        if self.source.length() - self.at < length {
            let message = format!(
                "{length} bytes at offset {} extend past the file's {}",
                self.at,
                self.source.length()
            );
            return Err(Error::new(Code::Truncated, message).at(self.at));
        }
        let offset = self.at;
        self.at += length;
        Ok(offset)
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
