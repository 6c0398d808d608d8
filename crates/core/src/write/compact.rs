//! Rewrites a file without the bytes that its index no longer refers to: removed tensors and old indexes.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::fs::File;
use std::path::Path;

use super::canonical;
use crate::edit::Edit;
use crate::error::{Code, Error, Result};
use crate::formats::{Canonical, Formats};
use crate::inject;
use crate::limits::Limits;
use crate::sinks::block::{Block, FULL};
use crate::sinks::existing::ExistingFile;
use crate::sinks::{AtomicFile, Warning};
use crate::sources::ReadAt;
use crate::work::Watch;

const MAGIC: u64 = 8;
const MAGIC_BYTES: usize = 8;
/// The kernel copies runs of at least this many bytes. Smaller runs are gathered in a block, which needs a third of the
/// calls.
const BY_KERNEL: usize = 1 << 20;

/// The size of a file in bytes, before and after.
#[derive(PartialEq, Eq, Debug)]
pub struct Compacted {
    pub before: u64,
    pub after: u64,
    pub warnings: Vec<Warning>,
}

/// A run of bytes that moves as a whole.
#[derive(Clone, Copy, Debug)]
struct Run {
    old: u64,
    length: u64,
    new: u64,
}

/// The new offset of each blob.
struct Plan {
    runs: Vec<Run>,
    /// The index in `offsets` of the first component of each tensor.
    first: Vec<usize>,
    /// The new offsets of the components, in catalog order.
    offsets: Vec<u64>,
    /// The end of the last run.
    end: u64,
}

/// Plans the new offsets. Blobs keep their order and their alignment. Blobs that share bytes move together, so that
/// they still share them.
fn plan(edit: &Edit, alignment: u64) -> Result<Plan> {
    let too_large = || Error::new(Code::Limit, "the file would be larger than 2^64 bytes");
    let mut first = Vec::new();
    let mut components = 0;
    let mut blobs: Vec<(u64, u64, usize)> = Vec::new();
    for tensor in edit.catalog().iter() {
        first.push(components);
        for part in tensor.components() {
            // Other blobs are in shards, and stay there.
            if part.file() == 0 {
                blobs.push((part.offset(), part.stored_length(), components));
            }
            components += 1;
        }
    }
    let mut offsets = vec![0; components];
    blobs.arrange();
    let mut runs: Vec<Run> = Vec::new();
    let mut end = MAGIC;
    for (offset, length, at) in blobs {
        let run = match runs.last_mut() {
            Some(run) if length > 0 && offset < run.old.saturating_add(run.length) => run,
            _ => {
                let padding = (offset % alignment + alignment - end % alignment) % alignment;
                let new = end.checked_add(padding).ok_or_else(too_large)?;
                runs.push(Run { old: offset, length: 0, new });
                runs.last_mut().ok_or_else(too_large)?
            }
        };
        // The reader has checked that every blob ends inside the file.
        run.length = run.length.max(offset - run.old + length);
        end = run.new.checked_add(run.length).ok_or_else(too_large)?;
        if let Some(new) = offsets.get_mut(at) {
            *new = run.new + (offset - run.old);
        }
    }
    Ok(Plan { runs, first, offsets, end })
}

/// Plans the offsets of canonical form: blobs in the order of their names, equal content once.
fn arranged(edit: &Edit, file: &File, form: &Canonical) -> Result<Plan> {
    let canonical = canonical::Plan::new(edit.catalog(), file, MAGIC, form)?;
    let (mut first, mut offsets) = (Vec::new(), Vec::new());
    for tensor in edit.catalog().iter() {
        first.push(offsets.len());
        offsets.extend(tensor.components().iter().map(|part| canonical.new_offset(part)));
    }
    let runs = canonical.copies.iter().map(|&(old, length, new)| Run { old, length, new }).collect();
    Ok(Plan { runs, first, offsets, end: canonical.end })
}

fn write(file: &mut AtomicFile, block: &mut Block) -> Result<()> {
    file.write_block(block)?;
    block.clear();
    Ok(())
}

/// Rewrites the file at `path` if that makes it smaller: writes a new file in the same folder, flushes it to disk, then
/// replaces the old one. Fails like an edit, and with `ZT_UNSUPPORTED_VERSION` if the index has unknown keys.
pub fn compact(path: &Path, formats: Formats, limits: &Limits, watch: &Watch) -> Result<Compacted> {
    inject::panic_at("compact");
    let original = ExistingFile::open(path, false)?;
    let before = original.length();
    let edit = Edit::open(original.source(), formats, limits)?;
    let plan = match edit.canonical_form() {
        Some(form) => arranged(&edit, original.file(), &form)?,
        None => plan(&edit, edit.alignment())?,
    };
    let new_offset = |tensor: usize, component: usize| {
        let first = plan.first.get(tensor)?;
        plan.offsets.get(first + component).copied()
    };
    let tail = edit.moved_tail(plan.end, new_offset)?;
    let after = plan.end.saturating_add(tail.len() as u64);
    if after >= before {
        return Ok(Compacted { before, after: before, warnings: Vec::new() });
    }
    let retained: u64 = plan.runs.iter().map(|run| run.length).sum();
    watch.expect(retained, edit.catalog().len() as u64);
    let mut file = AtomicFile::create(original.path(), true)?;
    file.reserve(tail.len() as u64 + retained);
    let mut block = Block::default();
    original.source().read_at(0, block.claim(MAGIC_BYTES)?, &watch.stop)?;
    let mut position = MAGIC;
    for run in &plan.runs {
        watch.stop.check()?;
        block.hole(usize::try_from(run.new.saturating_sub(position)).unwrap_or_default())?;
        position = run.new.saturating_add(run.length);
        match usize::try_from(run.length) {
            Ok(length) if length < BY_KERNEL => {
                original.source().read_at(run.old, block.claim(length)?, &watch.stop)?;
                watch.did_bytes(run.length);
            }
            _ => {
                write(&mut file, &mut block)?;
                file.copy_pieces(original.file(), run.old, run.length, |piece| {
                    watch.stop.check()?;
                    watch.did_bytes(piece);
                    Ok(())
                })?;
            }
        }
        if block.len() >= FULL {
            write(&mut file, &mut block)?;
        }
    }
    write(&mut file, &mut block)?;
    file.write(&tail)?;
    edit.catalog().iter().for_each(|_| watch.did_tensor());
    watch.stop.check()?;
    let warnings = file.commit_if(|| original.last_look())?;
    Ok(Compacted { before, after, warnings })
}
