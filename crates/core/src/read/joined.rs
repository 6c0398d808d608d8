//! Arrays whose bytes lie in several blobs.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Reading, claimable, compare, parallel, stored_hasher, within};
use crate::checked::{end_within, index};
use crate::error::{Code, Error, Result};
use crate::model::slice::TensorSlice;
use crate::model::{Blob, Encoding, Piece, Pieces};
use crate::sources::ReadAt;
use crate::sources::owned::Owned;
use crate::work::{self, Stop};

impl Reading<'_> {
    /// Returns all bytes of an array in pieces, after verifying the digest of each.
    pub(super) fn joined(&self, pieces: &Pieces) -> Result<Owned> {
        within(pieces.byte_length(), self.limits)?;
        self.exist(pieces.blobs())?;
        let mut output = Owned::to_fill(pieces.byte_length())?;
        if pieces.rows() != 1 {
            self.interleave(pieces, &mut output)?;
            return Ok(output);
        }
        let (mut large, mut others) = (Vec::new(), Vec::new());
        let mut rest = &mut *output;
        for Piece { blob, run } in pieces.all() {
            let (target, behind) = rest.split_at_mut_checked(index(*run, "a piece")?).ok_or_else(short)?;
            rest = behind;
            // A large read is divided itself and takes all threads; the others run concurrently.
            let is_large = blob.encoding == Encoding::RAW && *run >= parallel::FROM;
            if is_large { &mut large } else { &mut others }.push(Mutex::new((blob, target)));
        }
        let fill = |slot: &Mutex<(&Blob, &mut [u8])>| {
            let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
            let (blob, target) = &mut *slot;
            self.blob_into(blob, target)
        };
        large.iter().try_for_each(fill)?;
        work::try_each_on(work::cores(), others.len(), |at| others.get(at).map_or(Ok(()), fill))?;
        Ok(output)
    }

    /// Interleaves the rows of the pieces, with one piece in memory at a time.
    fn interleave(&self, pieces: &Pieces, output: &mut [u8]) -> Result<()> {
        let row = index(pieces.row(), "a row")?;
        let mut at = 0;
        for Piece { blob, run } in pieces.all() {
            let bytes = self.blob(blob)?;
            let run = index(*run, "a row")?;
            if run == 0 || row == 0 {
                continue;
            }
            for (from, to) in bytes.chunks_exact(run).zip(output.chunks_exact_mut(row)) {
                to.get_mut(at..at + run).ok_or_else(short)?.copy_from_slice(from);
            }
            at += run;
        }
        Ok(())
    }

    /// Decodes a blob into memory of the exact size, after verifying its digest.
    fn blob_into(&self, blob: &Blob, output: &mut [u8]) -> Result<()> {
        if blob.encoding == Encoding::RAW {
            let mut hasher = stored_hasher(blob);
            let source = self.sources.source(blob.file)?;
            claimable(source, blob.offset, output.len() as u64)?;
            self.read_into(source, blob.offset, output, hasher.as_mut())?;
            return compare(blob, hasher);
        }
        let bytes = self.blob(blob)?;
        if bytes.len() != output.len() {
            return Err(short());
        }
        output.copy_from_slice(&bytes);
        Ok(())
    }

    /// Returns the bytes of a slice of an array in pieces: only the needed part of raw pieces, but encoded ones in full.
    pub(super) fn slice_pieces(&self, pieces: &Pieces, slice: &TensorSlice) -> Result<Owned> {
        self.read_slice(&Joined::new(self, pieces), 0, pieces.byte_length(), slice)
    }

    /// Checks that the files have the stored bytes before memory is allocated for them.
    fn exist<'b>(&self, blobs: impl Iterator<Item = &'b Blob>) -> Result<()> {
        blobs
            .into_iter()
            .try_for_each(|blob| claimable(self.sources.source(blob.file)?, blob.offset, blob.stored))
    }
}

fn short() -> Error {
    Error::new(Code::Decode, "the length of a piece of the data does not match its rows")
}

/// An array in pieces as if it were contiguous in one file.
struct Joined<'a> {
    reading: &'a Reading<'a>,
    pieces: &'a Pieces,
    /// The offset of each piece within a row.
    starts: Vec<u64>,
    /// Decoded content of encoded pieces.
    decoded: Vec<Mutex<Option<Arc<Owned>>>>,
}

impl<'a> Joined<'a> {
    fn new(reading: &'a Reading<'a>, pieces: &'a Pieces) -> Self {
        let mut at = 0_u64;
        let starts = pieces.all().iter().map(|piece| {
            let start = at;
            at = at.saturating_add(piece.run);
            start
        });
        let starts = starts.collect();
        let decoded = pieces.all().iter().map(|_| Mutex::default()).collect();
        Self { reading, pieces, starts, decoded }
    }

    /// Fills `output` with bytes of a piece.
    fn read_piece(&self, nth: usize, within: Range<u64>, output: &mut [u8], stop: &Stop) -> Result<()> {
        let (Some(Piece { blob, run }), Some(decoded)) = (self.pieces.all().get(nth), self.decoded.get(nth))
        else {
            return Err(short());
        };
        if blob.encoding == Encoding::RAW {
            let source = self.reading.sources.source(blob.file)?;
            claimable(source, blob.offset, blob.stored)?;
            return source.read_at(blob.offset.saturating_add(within.start), output, stop);
        }
        let mut decoded = decoded.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match &mut *decoded {
            Some(bytes) => bytes,
            none => none.insert(self.reading.blob_once(blob, run.saturating_mul(self.pieces.rows()))?),
        };
        let range = index(within.start, "a piece")?..index(within.end, "a piece")?;
        output.copy_from_slice(bytes.get(range).ok_or_else(short)?);
        Ok(())
    }
}

impl ReadAt for Joined<'_> {
    fn length(&self) -> u64 {
        self.pieces.byte_length()
    }

    fn read_at(&self, offset: u64, mut buffer: &mut [u8], stop: &Stop) -> Result<()> {
        if end_within(offset, buffer.len() as u64, self.length()).is_none() {
            return Err(short());
        }
        let row = self.pieces.row();
        let (Some(mut number), Some(mut at)) = (offset.checked_div(row), offset.checked_rem(row)) else {
            return Ok(()); // no rows, nothing to fill
        };
        // The last piece that begins there: empty pieces begin where the next one does.
        let mut nth = self.starts.partition_point(|&start| start <= at).saturating_sub(1);
        while !buffer.is_empty() {
            let (Some(piece), Some(start)) = (self.pieces.all().get(nth), self.starts.get(nth)) else {
                (number, at, nth) = (number.saturating_add(1), 0, 0);
                continue;
            };
            let skipped = at - start;
            let count = usize::try_from(piece.run - skipped).unwrap_or(usize::MAX).min(buffer.len());
            let (part, rest) = std::mem::take(&mut buffer).split_at_mut_checked(count).ok_or_else(short)?;
            let from = number.saturating_mul(piece.run).saturating_add(skipped);
            self.read_piece(nth, from..from.saturating_add(count as u64), part, stop)?;
            buffer = rest;
            (at, nth) = (at.saturating_add(count as u64), nth + 1);
        }
        Ok(())
    }
}
