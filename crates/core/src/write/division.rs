//! Which file of a set each tensor goes into, before any is written.
#![forbid(unsafe_code)]

use super::Writer;
use super::parts;
use super::shards::Shards;
use crate::formats::{IndexBytes, Sharding, WriteFormat};

/// Divides tensors among the files of a set, as if none of them were compressed.
pub struct Division {
    rule: Rule,
    alignment: u64,
    /// Where the data of a file begins.
    start: u64,
    position: u64,
    file: u32,
}

enum Rule {
    /// Files of a checkpoint, with at most so many bytes of tensors.
    Tensors(u64),
    /// Data shards, whose index is in the root.
    Blobs(Shards),
    /// Files with an index of their own, of which `index` bytes are needed so far.
    Whole { largest: u64, per: IndexBytes, index: u64 },
}

impl Writer {
    /// Returns the division of the files that it will write.
    pub fn division(&self) -> Division {
        let format = self.settings.format;
        let rule = match &self.parts {
            Some(parts) => Rule::Tensors(parts.largest()),
            None => Rule::Blobs(Shards::new(format, self.shards.largest)),
        };
        Division::new(rule, format, self.settings.alignment)
    }
}

impl Division {
    fn new(rule: Rule, format: &WriteFormat, alignment: u64) -> Self {
        let start = if matches!(rule, Rule::Tensors(_)) { 0 } else { format.magic.len() as u64 };
        Self { rule, alignment, start, position: start, file: 0 }
    }

    /// Returns the division among files of at most `largest` bytes that separate writers write, each with its index.
    pub fn of_files(format: &'static WriteFormat, alignment: u64, largest: u64) -> Self {
        let rule = match format.shards {
            Sharding::Data(data) => Rule::Whole { largest, per: data.index, index: data.index.file },
            Sharding::None | Sharding::Checkpoint(_) => Rule::Tensors(largest),
        };
        Self::new(rule, format, alignment)
    }

    /// Returns the number of the file, from 0 on, of a tensor with this name whose components have these `lengths`.
    pub fn next(&mut self, name: &str, lengths: &[u64]) -> u32 {
        let mut end = self.end(lengths);
        let is_full = match &mut self.rule {
            Rule::Tensors(largest) => {
                parts::is_full(self.position, end.saturating_sub(self.position), *largest)
            }
            Rule::Blobs(shards) => shards.is_full(self.position, self.alignment, lengths.iter().copied()),
            Rule::Whole { largest, per, index } => {
                let entry = per.of(name, lengths.len());
                *index = index.saturating_add(entry);
                let at = end.checked_next_multiple_of(self.alignment).unwrap_or(u64::MAX);
                let is_full = self.position > self.start && at.saturating_add(*index) > *largest;
                if is_full {
                    *index = per.file.saturating_add(entry);
                }
                is_full
            }
        };
        if is_full {
            self.file += 1;
            self.position = self.start;
            end = self.end(lengths);
        }
        self.position = end;
        self.file
    }

    /// Returns where the file would end with components of these lengths.
    fn end(&self, lengths: &[u64]) -> u64 {
        lengths.iter().fold(self.position, |end, &length| {
            let at = match self.rule {
                Rule::Tensors(_) => end,
                _ => end.checked_next_multiple_of(self.alignment).unwrap_or(u64::MAX),
            };
            at.saturating_add(length)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(mut division: Division, lengths: &[&[u64]]) -> Vec<u32> {
        lengths.iter().map(|lengths| division.next("a", lengths)).collect()
    }

    #[test]
    fn files_of_a_checkpoint_count_the_bytes_of_tensors() {
        let of = || Division::of_files(WriteFormat::SAFETENSORS, 64, 100);
        assert_eq!(files(of(), &[&[60], &[40], &[1], &[200], &[0], &[1]]), [0, 0, 1, 2, 3, 3]);
        assert_eq!(files(of(), &[&[50, 50], &[u64::MAX]]), [0, 1]);
    }

    #[test]
    fn whole_files_count_gaps_and_their_index() {
        // Two blobs at 4096 and 8192, and an index of two entries.
        let largest = 3 * 4096 + 4096 + 2 * (512 + 2);
        let of = |largest| Division::of_files(WriteFormat::ZT2, 4096, largest);
        assert_eq!(files(of(largest), &[&[4096], &[4096], &[1]]), [0, 0, 1]);
        assert_eq!(files(of(largest - 1), &[&[4096], &[4096], &[1]]), [0, 1, 2]);
        // A tensor that is too large has a file of its own.
        assert_eq!(files(of(10), &[&[1], &[1], &[u64::MAX], &[1]]), [0, 1, 2, 3]);
        // Components are aligned, each with an entry.
        assert_eq!(files(of(largest), &[&[1, 1], &[1]]), [0, 1]);
    }
}
