//! The files of a conversion that several machines write: their plan, and their check against it.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use ztensor_core::arrange::Arrange;

use napi::bindgen_prelude::{Object, Uint32Array};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::codecs::digest::Digest;
use ztensor_core::convert::{self, FilePlan, Mismatch};
use ztensor_core::formats::Sharding;
use ztensor_core::sources::owned::Owned;
use ztensor_core::work::lanes::Lane;
use ztensor_core::write::SetFile;

use super::{NativeConversion, locked};
use crate::js::control::Control;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::memory::Memory;
use crate::values::arguments::{alignment as aligned, format, size};
use crate::write::writer::{NativeWriter, gone};
use ztensor_handover::number;

/// A file of a set that is planned.
#[napi(object, object_from_js = false)]
pub struct PlannedFile {
    /// The positions of its tensors among all that are written.
    pub from: u32,
    pub end: u32,
    /// Ranges of the ordinals of its tensors in the source: alternately the first and the one after the last. Tensors that are left out
    /// are among them.
    pub ordinals: Uint32Array,
    /// The tensors with new names.
    pub renamed: Vec<Renamed>,
    /// The bytes of its tensors, before compression.
    pub byte_length: f64,
}

/// The new name of a tensor.
#[napi(object, object_from_js = false)]
pub struct Renamed {
    pub ordinal: u32,
    pub name: String,
}

/// The tensors that a file was planned to have, by their positions.
#[napi(object, object_to_js = false)]
pub struct ExpectedTensors {
    pub from: u32,
    pub end: u32,
    /// Whether positions count only the tensors that are written.
    pub only_written: bool,
    /// The names in the source of the tensors that are reported as skipped.
    pub skipped: Vec<String>,
}

/// The result of checking a file.
#[napi(object, object_from_js = false)]
pub struct CheckedFile {
    /// The number of tensors that it should have.
    pub count: f64,
    pub wrong: Option<WrongFile>,
}

/// What is wrong with a file.
#[napi(object, object_from_js = false)]
pub struct WrongFile {
    #[napi(ts_type = "import('./errors.js').ErrorCode")]
    pub code: String,
    /// A part of a sentence whose subject is the file.
    pub what: String,
    pub tensor: String,
}

impl From<Mismatch> for WrongFile {
    fn from(Mismatch { code, what, tensor }: Mismatch) -> Self {
        Self { code: code.name().to_owned(), what, tensor }
    }
}

/// A file of a set as it is reported.
#[napi(object, object_to_js = false)]
pub struct ReportedFile {
    /// The number of the file in the set, from 0 on.
    pub number: u32,
    /// Bytes of the whole file, and their digest.
    pub size: f64,
    pub digest: String,
}

#[napi]
impl NativeConversion {
    /// Divides the tensors among files of at most `largest` bytes, which are written independently. Call it after `plan`.
    #[napi(ts_return_type = "Promise<PlannedFile[]>", catch_unwind)]
    pub fn files<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        write_format: String,
        alignment: f64,
        largest: f64,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (source, format) = (file.reader(env, control, None)?, format(&write_format)?);
        let (alignment, largest) = (aligned(alignment)?, size(largest)?);
        let inner = Arc::clone(&self.inner);
        let lane = source.shared.or_remote(Lane::Long);
        let job = move || {
            let inner = locked(&inner);
            let mut selection = (*inner.conversion.selection).clone();
            let left_out: HashSet<u32> = inner
                .conversion
                .left_out()
                .iter()
                .filter_map(|&at| selection.ordinals().get(at).copied())
                .collect();
            source.read(|reading| {
                let reading = convert::derived(inner.conversion.derived.as_deref(), reading);
                if format.canonical.is_some() {
                    selection.sort(reading.catalog);
                }
                convert::divide(
                    reading,
                    &selection,
                    &inner.conversion.casts,
                    |ordinal| left_out.contains(&ordinal),
                    (format, alignment, largest),
                )
            })
        };
        spawn(env, lane, control, job, |_, files| {
            Ok(files.into_iter().map(PlannedFile::from).collect::<Vec<_>>())
        })
    }

    /// Checks that a file of a set, which another process has written, has the planned tensors, and keeps its index for `join`. Call it
    /// after `plan`.
    #[napi(ts_return_type = "Promise<CheckedFile>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a file, and what it is compared with
    pub fn check_file<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        written: &NativeFile,
        write_format: String,
        expected: ExpectedTensors,
        reported: ReportedFile,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (source, written) = (file.reader(env, control, None)?, written.reader(env, control, None)?);
        let (format, size) = (format(&write_format)?, size(reported.size)?);
        let inner = Arc::clone(&self.inner);
        let job = move || {
            let mut inner = locked(&inner);
            let left_out = inner.conversion.left_out();
            let positions = expected.from as usize..expected.end as usize;
            let is_numbered = matches!(format.shards, Sharding::Checkpoint(set) if !set.is_indexed);
            let planned = convert::Planned {
                catalog: inner.conversion.derived.as_deref().unwrap_or(&source.shared.catalog),
                selection: &inner.conversion.selection,
                casts: &inner.conversion.casts,
                positions: if expected.only_written { among(&left_out, positions) } else { positions },
                left_out: &left_out,
                inspected: &inner.conversion.inspected.0,
                format,
                is_ordered: is_numbered,
            };
            let catalog = Arc::clone(&written.shared.catalog);
            let skipped = expected.skipped.iter().map(String::as_str).collect();
            let count = match planned.check(&catalog, &skipped)? {
                Ok(count) => count,
                Err(mismatch) => return Ok(Err(mismatch)),
            };
            let digest = Digest::parse_registered(&reported.digest)?;
            // Nothing refers to files that state their numbers.
            if !is_numbered {
                inner.checked.insert(reported.number, SetFile { catalog, size, digest });
            }
            Ok(Ok(count))
        };
        spawn(env, Lane::Long, control, job, |_, checked| {
            Ok(match checked {
                Ok(count) => CheckedFile { count: number(count as u64), wrong: None },
                Err(mismatch) => CheckedFile { count: 0.0, wrong: Some(mismatch.into()) },
            })
        })
    }

    /// The bytes of the file that refers to the checked files of a set, in order: a root with the attributes of `writer`, or an index. Null
    /// for a set without such a file. `target` is the path after which the files are named. Ends the writer.
    #[napi(ts_return_type = "Promise<Memory | null>", catch_unwind)]
    pub fn join<'env>(
        &self,
        env: &'env Env,
        writer: &NativeWriter,
        target: String,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (inner, slot) = (Arc::clone(&self.inner), Arc::clone(writer.slot()));
        let job = move || {
            let files: Vec<SetFile> = std::mem::take(&mut locked(&inner).checked).into_values().collect();
            let writer = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            writer.ok_or_else(gone)?.join(Path::new(&target), &files)
        };
        spawn(env, Lane::Long, control, job, |_, bytes| {
            Ok(bytes.map(|bytes| Memory::from(Owned::from(bytes))))
        })
    }
}

/// Turns positions among the tensors that are written into those among all.
fn among(left_out: &[usize], positions: Range<usize>) -> Range<usize> {
    let of = |position| left_out.iter().fold(position, |at, &other| if other <= at { at + 1 } else { at });
    let start = of(positions.start);
    let end =
        positions.end.checked_sub(1).filter(|_| !positions.is_empty()).map_or(start, |last| of(last) + 1);
    start..end
}

impl From<FilePlan> for PlannedFile {
    fn from(FilePlan { positions, mut ordinals, renamed, byte_length }: FilePlan) -> Self {
        let short = |position| u32::try_from(position).unwrap_or(u32::MAX);
        ordinals.arrange();
        let mut ranges: Vec<u32> = Vec::new();
        for ordinal in ordinals {
            match ranges.last_mut() {
                Some(end) if *end == ordinal => *end += 1,
                _ => ranges.extend([ordinal, ordinal.saturating_add(1)]),
            }
        }
        Self {
            from: short(positions.start),
            end: short(positions.end),
            ordinals: ranges.into(),
            renamed: renamed.into_iter().map(|(ordinal, name)| Renamed { ordinal, name }).collect(),
            byte_length: number(byte_length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_among_written_tensors_are_found_among_all() {
        assert_eq!(among(&[], 1..3), 1..3);
        assert_eq!(among(&[0, 2, 3], 0..2), 1..5);
        assert_eq!(among(&[0, 2, 3], 1..3), 4..6);
        assert_eq!(among(&[0, 2, 3], 1..1), 4..4);
        assert_eq!(among(&[5], 0..5), 0..5);
    }
}
