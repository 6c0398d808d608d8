//! The blobs that a verification reads: each once, however many components name it, and in units that keep all cores busy to the
//! end.
#![forbid(unsafe_code)]

use crate::arrange::Arrange;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::checked;
use crate::codecs::digest::Hasher;
use crate::error::{Code, Error, Result};
use crate::inject;
use crate::layouts::elements::RuleCheck;
use crate::model::{Component, Key, Span, Tensor};
use crate::read::planner::{Aim, SMALL, reads};
use crate::read::{Reading, compare, parallel, stored_hasher};
use crate::sources::{Costs, MappedWindows, ReadAt, scratch};
use crate::work;

/// Bytes of a blob that are hashed by one thread in one go, between two looks at the stop flag.
const PIECE: u64 = 8 << 20;

/// Something that is judged once.
struct Judged<'a> {
    tensor: Tensor<'a>,
    /// `None`: the arrays of a sparse tensor, whose rules concern several of them.
    component: Option<&'a Component>,
    /// The index of the tensor among those that are verified.
    owner: usize,
    /// What is wrong with it.
    wrong: OnceLock<Error>,
}

/// A part of the work.
enum Unit {
    /// A blob that is hashed from its first byte to its last.
    InOrder(usize),
    /// Small neighbors: a range of `small`.
    Span(Range<usize>),
    /// A blob whose digest follows from those of its pieces, and so many of them.
    Divided(usize, usize, Mutex<Option<Pieces>>),
}

/// What the pieces of a blob hashed to, and how many are still to come.
struct Pieces {
    found: Vec<u32>,
    left: usize,
}

/// All blobs of the tensors that are verified.
pub struct Blobs<'a> {
    reading: Reading<'a>,
    all: Vec<Judged<'a>>,
    by_key: HashMap<Key<'a>, usize>,
    /// Those that have to be decoded.
    decoded: Vec<usize>,
    /// Those that are small, in the order that they were met in.
    small: Vec<usize>,
    units: Vec<Unit>,
    /// Up to and with each unit, what is done in one go: a unit, or a piece of a divided one.
    ends: Vec<usize>,
    /// What is mapped of each file.
    windows: HashMap<u32, MappedWindows>,
    /// Blobs of each tensor that are still to be judged.
    left: Vec<AtomicU32>,
}

impl<'a> Blobs<'a> {
    pub fn of(reading: Reading<'a>, tensors: &[Tensor<'a>]) -> Self {
        let mut blobs = Self {
            reading,
            all: Vec::new(),
            by_key: HashMap::new(),
            decoded: Vec::new(),
            small: Vec::new(),
            units: Vec::new(),
            ends: Vec::new(),
            windows: HashMap::new(),
            left: Vec::with_capacity(tensors.len()),
        };
        for (owner, &tensor) in tensors.iter().enumerate() {
            let first = blobs.all.len();
            blobs.add(owner, tensor);
            let added = u32::try_from(blobs.all.len() - first).unwrap_or(u32::MAX);
            blobs.left.push(AtomicU32::new(added));
        }
        blobs.divide();
        blobs
    }

    fn add(&mut self, owner: usize, tensor: Tensor<'a>) {
        if tensor.is_sparse() {
            self.decoded.push(self.all.len());
            self.all.push(Judged { tensor, component: None, owner, wrong: OnceLock::new() });
        }
        for component in by_themselves(tensor) {
            let at = self.all.len();
            if !is_judged(component) || *self.by_key.entry(component.key()).or_insert(at) != at {
                continue;
            }
            if component.is_decoded() {
                self.decoded.push(at);
            } else if component.is_raw_blob() && component.stored_length() <= SMALL {
                self.small.push(at);
            } else {
                self.windows.entry(component.file()).or_default();
                self.units.push(unit(at, component));
            }
            self.all.push(Judged { tensor, component: Some(component), owner, wrong: OnceLock::new() });
        }
    }

    /// Puts the units into an order that ends well: first what one core has to do alone, the longest before the others,
    /// last what is divided into pieces.
    fn divide(&mut self) {
        let all = &self.all;
        let length =
            |at: usize| all.get(at).and_then(|blob| blob.component).map_or(0, Component::stored_length);
        self.units.arrange_by_key(|unit| match unit {
            Unit::InOrder(at) => (0, Reverse(length(*at))),
            Unit::Span(_) | Unit::Divided(..) => (1, Reverse(0)),
        });
        let mut spans = self.spans();
        let alone = self.units.partition_point(|unit| matches!(unit, Unit::InOrder(_)));
        let divided = self.units.split_off(alone);
        self.units.append(&mut spans);
        self.units.extend(divided);
        let mut end = 0;
        for unit in &self.units {
            end += if let Unit::Divided(_, pieces, _) = unit { *pieces } else { 1 };
            self.ends.push(end);
        }
    }

    /// Neighbors in the file that one read brings in.
    fn spans(&self) -> Vec<Unit> {
        let spans = self.small.iter().filter_map(|&blob| self.component(blob)).map(Component::span);
        let source = |file: u32| self.reading.sources.source(file);
        // What cannot be opened fails where it is read.
        let near = |file| Aim::HASHED.on(source(file).map_or(Costs::LOCAL, ReadAt::costs));
        let whole = |span: Span| source(span.file).is_ok_and(|source| source.holds(span.offset, span.length));
        reads(spans, near, whole).into_iter().map(|read| Unit::Span(read.ranges)).collect()
    }

    fn component(&self, at: usize) -> Option<&'a Component> {
        self.all.get(at)?.component
    }

    /// Returns the bytes that are read to judge all of them.
    pub fn bytes(&self) -> u64 {
        let own = |tensor: Tensor<'a>| tensor.components().iter().filter(move |part| tensor.is_own(part));
        let length = |blob: &Judged<'a>| match blob.component {
            Some(component) => component.stored_length(),
            None => own(blob.tensor).map(Component::stored_length).fold(0, u64::saturating_add),
        };
        self.all.iter().map(length).fold(0, u64::saturating_add)
    }

    /// Judges all of them. Fails only where the file cannot be read or the work is stopped.
    pub fn judge(&self) -> Result<()> {
        // Nothing of these is read.
        let nothing = self.left.iter().filter(|left| left.load(Ordering::Relaxed) == 0);
        nothing.for_each(|_| self.reading.watch.did_tensor());
        let each = |&at: &usize| self.judge_decoded(at);
        work::try_each_on(work::cores(), self.decoded.len(), |at| self.decoded.get(at).map_or(Ok(()), each))?;
        let all = self.ends.last().copied().unwrap_or(0);
        work::try_each_on(self.threads(), all, |nth| {
            let at = self.ends.partition_point(|&end| end <= nth);
            let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
            match self.units.get(at) {
                Some(&Unit::InOrder(at)) => self.judge_in_order(at),
                Some(Unit::Span(range)) => self.judge_span(range),
                Some(Unit::Divided(at, pieces, state)) => self.judge_piece(*at, nth - begin, *pieces, state),
                None => Ok(()),
            }
        })
    }

    /// As many as suit the storage, by a few of the blobs.
    fn threads(&self) -> usize {
        let step = self.units.len().div_ceil(4).max(1);
        let sample = |unit: &Unit| {
            let at = match unit {
                Unit::InOrder(at) | Unit::Divided(at, ..) => *at,
                Unit::Span(range) => *self.small.get(range.start)?,
            };
            let component = self.component(at)?;
            let source = self.reading.source(component).ok()?;
            Some(parallel::threads(source, component.offset(), component.stored_length()))
        };
        self.units.iter().step_by(step).filter_map(sample).max().unwrap_or(1)
    }

    fn judge_decoded(&self, at: usize) -> Result<()> {
        inject::panic_at("verify");
        let Some(blob) = self.all.get(at) else { return Ok(()) };
        let judged = match blob.component {
            // Loading them checks digests and lengths on the way, and names the component.
            None => self.reading.judge_sparse(blob.tensor),
            Some(component) => self.reading.judge(component),
        };
        self.settle(at, judged)
    }

    fn judge_in_order(&self, at: usize) -> Result<()> {
        inject::panic_at("verify");
        let Some(component) = self.component(at) else { return Ok(()) };
        let mut hasher = hasher_of(component);
        if component.rule.is_some() || hasher.is_none() {
            return self.settle(at, self.reading.stored_pieces(component, &mut |_| Ok(())));
        }
        let read = hasher
            .as_mut()
            .map_or(Ok(()), |hasher| self.hash(component, 0, component.stored_length(), hasher));
        self.settle(at, read.and_then(|()| check(component, hasher)))
    }

    fn judge_span(&self, range: &Range<usize>) -> Result<()> {
        let blobs = self.small.get(range.clone()).unwrap_or_default();
        let ends = [blobs.first(), blobs.last()].map(|at| self.component(*at?));
        let [Some(first), Some(last)] = ends else { return Ok(()) };
        let length = last.offset().saturating_add(last.stored_length()) - first.offset();
        let read = scratch::with(length, |buffer| {
            self.reading.watch.stop.check()?;
            self.reading.source(first)?.read_at(first.offset(), buffer, &self.reading.watch.stop)?;
            for &at in blobs {
                inject::panic_at("verify");
                let Some(component) = self.component(at) else { continue };
                let bytes =
                    checked::slice(buffer, component.offset() - first.offset(), component.stored_length());
                let judged = judge_bytes(component, bytes.unwrap_or_default());
                self.reading.watch.did_bytes(component.stored_length());
                self.settle(at, judged)?;
            }
            Ok(())
        });
        read.map_err(|error| blobs.first().map_or(error.clone(), |&at| self.named(at, error)))
    }

    fn judge_piece(&self, at: usize, nth: usize, pieces: usize, state: &Mutex<Option<Pieces>>) -> Result<()> {
        inject::panic_at("verify");
        let Some((component, mut hasher)) =
            self.component(at).and_then(|component| Some((component, hasher_of(component)?)))
        else {
            return Ok(());
        };
        let start = nth as u64 * PIECE;
        let length = |nth: usize| (component.stored_length() - nth as u64 * PIECE).min(PIECE);
        if let Err(error) = self.hash(component, start, length(nth), &mut hasher) {
            return self.settle(at, Err(error));
        }
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let found = state.get_or_insert_with(|| Pieces { found: vec![0; pieces], left: pieces });
        if let (Some(slot), Some(crc)) = (found.found.get_mut(nth), hasher.combined()) {
            *slot = crc;
        }
        found.left -= 1;
        if found.left > 0 {
            return Ok(());
        }
        let Some(mut hasher) = hasher_of(component) else { return Ok(()) };
        for (nth, &crc) in found.found.iter().enumerate() {
            hasher.combine(crc, length(nth));
        }
        *state = None;
        self.settle(at, check(component, Some(hasher)))
    }

    /// Hashes a part of a component's stored bytes.
    fn hash(&self, component: &Component, start: u64, length: u64, hasher: &mut Hasher) -> Result<()> {
        let source = self.reading.source(component)?;
        let Some(windows) = self.windows.get(&component.file()) else { return Ok(()) };
        let (mut at, end) = (start, start.saturating_add(length));
        let stop = &self.reading.watch.stop;
        while at < end {
            stop.check()?;
            let count = (end - at).min(PIECE);
            source.hash(windows, component.offset().saturating_add(at), count, hasher, stop)?;
            self.reading.watch.did_bytes(count);
            at += count;
        }
        Ok(())
    }

    /// Keeps what is wrong with the file, and passes on what keeps us from reading it.
    fn settle(&self, at: usize, judged: Result<()>) -> Result<()> {
        let Some(blob) = self.all.get(at) else { return judged };
        if let Err(error) = judged {
            let is_lost = match error.code() {
                Code::Io | Code::Aborted => true,
                // A file that was truncated after it was opened cannot be verified. One that was truncated before can.
                Code::Truncated => blob.component.is_none_or(|part| self.is_sliced(part)),
                _ => false,
            };
            if is_lost {
                return Err(self.named(at, error));
            }
            // Each is judged once.
            let _ = blob.wrong.set(error);
        }
        if self.left.get(blob.owner).is_some_and(|left| left.fetch_sub(1, Ordering::Relaxed) == 1) {
            self.reading.watch.did_tensor();
        }
        Ok(())
    }

    /// Whether a component's file has fewer bytes than when it was opened, or cannot be read any more.
    fn is_sliced(&self, component: &Component) -> bool {
        self.reading.source(component).and_then(ReadAt::check_length).is_err()
    }

    fn named(&self, at: usize, error: Error) -> Error {
        let Some(blob) = self.all.get(at) else { return error };
        match blob.component {
            None => error,
            Some(component) => {
                error.tensor(blob.tensor.name()).component(self.reading.catalog.label(component.role))
            }
        }
    }

    /// What was found wrong, of each tensor in turn, under the names of all components that share a blob.
    pub fn wrong(&self, tensors: &[Tensor<'a>], mut each: impl FnMut(Error)) {
        if self.all.iter().all(|blob| blob.wrong.get().is_none()) {
            return;
        }
        let mut sparse = self.all.iter().filter(|blob| blob.component.is_none());
        for &tensor in tensors {
            if tensor.is_sparse() {
                sparse.next().and_then(|blob| blob.wrong.get()).cloned().into_iter().for_each(&mut each);
            }
            for component in by_themselves(tensor) {
                let blob = self.by_key.get(&component.key()).and_then(|&at| self.all.get(at));
                if let Some(error) = blob.filter(|_| is_judged(component)).and_then(|blob| blob.wrong.get()) {
                    let role = self.reading.catalog.label(component.role);
                    each(error.clone().tensor(tensor.name()).component(role));
                }
            }
        }
    }
}

/// The components that are judged one by one.
fn by_themselves(tensor: Tensor<'_>) -> impl Iterator<Item = &Component> {
    tensor.components().iter().filter(move |part| !(tensor.is_sparse() && tensor.is_own(part)))
}

/// Whether there is anything to be found out by reading a component.
fn is_judged(component: &Component) -> bool {
    component.is_decoded() || component.has_checked_digest() || component.rule.is_some()
}

fn hasher_of(component: &Component) -> Option<Hasher> {
    component.blob().and_then(stored_hasher)
}

fn check(component: &Component, hasher: Option<Hasher>) -> Result<()> {
    component.blob().map_or(Ok(()), |blob| compare(blob, hasher))
}

fn unit(at: usize, component: &Component) -> Unit {
    let combines = hasher_of(component).is_some_and(|hasher| hasher.combined().is_some());
    let pieces = usize::try_from(component.stored_length().div_ceil(PIECE)).unwrap_or(usize::MAX);
    if combines && component.rule.is_none() && component.stored_length() >= parallel::FROM && pieces > 1 {
        return Unit::Divided(at, pieces, Mutex::new(None));
    }
    Unit::InOrder(at)
}

/// Checks the digest over raw bytes and the rules on their elements.
fn judge_bytes(component: &Component, bytes: &[u8]) -> Result<()> {
    let mut elements = RuleCheck::new(component.rule);
    elements.note(bytes);
    if let Some(mut hasher) = hasher_of(component) {
        hasher.update(bytes);
        check(component, Some(hasher))?;
    }
    elements.finish()
}
