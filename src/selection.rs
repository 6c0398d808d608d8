//! The tensors of a file that are converted: which they are, what the target cannot hold of them, and their copy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napi::bindgen_prelude::{Object, Uint32Array};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::convert::{self, Casts, Chosen, Wanted};
use ztensor_core::error::{Error as CoreError, Result as CoreResult};
use ztensor_core::read::Reading;
use ztensor_core::read::staging::stored_bytes;
use ztensor_core::read::total::Work;
use ztensor_core::sources::read_ahead::ReadAhead;
use ztensor_core::work::Watch;
use ztensor_core::work::lanes::Lane;
use ztensor_core::write::Writer;

use crate::control::Control;
use crate::error::{NativeError, misuse, throw};
use crate::file::NativeFile;
use crate::index::number;
use crate::outflow::Outflow;
use crate::stage::{self, Stage, StageBatch};
use crate::task::{spawn, spawn_aside};
use crate::writer::{NativeWriter, dtype, format, with_writer};

/// Refusals that cross at once: each is an object of its own.
const PAGE: usize = 1000;

#[derive(Default)]
struct Inner {
    chosen: Arc<Chosen>,
    /// The places of the tensors whose data decides, and these tensors.
    judged: Arc<(Vec<usize>, Vec<u32>)>,
    /// What cannot be held, by places.
    refused: Vec<(usize, CoreError)>,
    /// Why the file's own attributes cannot.
    attributes: Option<CoreError>,
    /// Refusals that JavaScript has.
    told: usize,
    /// Stored bytes of the tensors that are copied.
    bytes: u64,
}

/// Tensors by their ordinals in a file, and the names that they get.
#[napi]
pub struct Selection {
    casts: Arc<Casts>,
    inner: Arc<Mutex<Inner>>,
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a selection comes to.
#[napi(object, object_from_js = false)]
pub struct Selected {
    pub tensors: u32,
    /// Their stored bytes.
    pub bytes: f64,
    /// What the target cannot hold, as the index tells; the file's own attributes are one more.
    pub refused: u32,
    /// Tensors whose data decides, and their stored bytes.
    pub judged: u32,
    pub judged_bytes: f64,
    /// Whether the target can hold the file's own attributes.
    pub attributes: bool,
}

#[napi]
impl Selection {
    /// Which dtypes become which: `[from, to, …]`; `numbered`: the target has no names.
    #[napi(constructor, catch_unwind)]
    pub fn new(env: Env, casts: Vec<u32>, numbered: bool) -> Result<Self> {
        let chosen = if numbered { Chosen::numbered() } else { Chosen::default() };
        let inner = Inner { chosen: Arc::new(chosen), ..Inner::default() };
        Ok(Self { casts: Arc::new(pairs(&env, &casts)?), inner: Arc::new(Mutex::new(inner)) })
    }

    /// Takes further tensors; `names`: what they are to be called, none of them for their own names.
    #[napi(catch_unwind)]
    pub fn take(&self, ordinals: Uint32Array, names: Vec<String>) {
        Arc::make_mut(&mut locked(&self.inner).chosen).take(&ordinals, names);
    }

    /// Finds what the index tells of what a format cannot hold. Refuses tensors that come to far more than their file, and a name
    /// that is given twice.
    #[napi(ts_return_type = "Promise<Selected>", catch_unwind)]
    pub fn look<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        name: String,
        canonical: bool,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (source, format) = (file.reader(env, control, None)?, format(&name)?);
        let lane = source.shared.or_remote(Lane::Long);
        let (inner, casts) = (Arc::clone(&self.inner), Arc::clone(&self.casts));
        let job = move || {
            let mut inner = locked(&inner);
            source.shared.check_total(inner.chosen.ordinals(), Work::Copy)?;
            source.read(|reading| inner.look(reading, Wanted { format, canonical, casts: &casts }))
        };
        spawn(env, lane, control, job, |_, selected| Ok(selected))
    }

    /// A stage for some of the tensors, or of those whose data decides, from the one at a place on.
    #[napi(catch_unwind)]
    pub fn stage_next(&self, env: &Env, file: &NativeFile, judged: bool, from: u32) -> Result<StageBatch> {
        let inner = locked(&self.inner);
        let ordinals = if judged { &inner.judged.1 } else { inner.chosen.ordinals() };
        stage::batch(env, file, ordinals, from)
    }

    /// Finds which of the tensors whose data decides cannot be held, from one place to another.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a range and what reads it
    pub fn judge<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        from: u32,
        end: u32,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, stage)?);
        let lane = writer.or_remote(source.shared.or_remote(Lane::Long));
        let (inner, casts) = (Arc::clone(&self.inner), Arc::clone(&self.casts));
        let job = move || {
            let judged = Arc::clone(&locked(&inner).judged);
            let (from, end) = (from as usize, end as usize);
            let ordinals = judged.1.get(from..end).unwrap_or_default();
            let found = source.read(|reading| {
                with_writer(&slot, |writer| convert::unfit(reading, ordinals, &casts, writer))
            })?;
            let placed = |(at, error)| Some((*judged.0.get(from + at)?, error));
            locked(&inner).refused.extend(found.into_iter().filter_map(placed));
            Ok(())
        };
        spawn(env, lane, control, job, |_, ()| Ok(()))
    }

    /// The ordinals of the tensors whose data decides.
    #[napi(catch_unwind)]
    pub fn judged_ordinals(&self) -> Uint32Array {
        locked(&self.inner).judged.1.clone().into()
    }

    /// What cannot be held, page by page: in the order of the tensors, last the file's own attributes if they are asked for.
    #[napi(catch_unwind)]
    pub fn refusals(&self, attributes: bool) -> Vec<NativeError> {
        let mut inner = locked(&self.inner);
        if inner.told == 0 {
            inner.refused.sort_by_key(|&(place, _)| place);
        }
        let tensors = inner.refused.iter().map(|(_, error)| error);
        let all = tensors.chain(inner.attributes.iter().filter(|_| attributes));
        let page: Vec<_> = all.skip(inner.told).take(PAGE).map(NativeError::from).collect();
        inner.told += page.len();
        page
    }

    /// Leaves out what cannot be held, and puts the rest into the order in which the writer needs it. The attributes of the writer are
    /// what they shall be.
    #[napi(ts_return_type = "Promise<Settled>", catch_unwind)]
    pub fn settle<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        control: &Control,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, None)?);
        let (inner, casts) = (Arc::clone(&self.inner), Arc::clone(&self.casts));
        let job = move || {
            let mut inner = locked(&inner);
            let Inner { chosen, refused, .. } = &mut *inner;
            refused.sort_by_key(|&(place, _)| place);
            let places: Vec<_> = refused.iter().map(|&(place, _)| place).collect();
            let catalog = &source.shared.catalog;
            let kept = Arc::make_mut(chosen);
            kept.leave_out(&places);
            source.read(|reading| {
                with_writer(&slot, |writer| {
                    if writer.format().canonical.is_some() {
                        kept.sort(catalog);
                    }
                    convert::lay_out(reading, kept, &casts, writer)
                })
            })?;
            inner.bytes = inner.chosen.stored(catalog);
            Ok((inner.chosen.len(), inner.bytes))
        };
        spawn(env, writer.or_remote(Lane::Long), control, job, |_, (tensors, bytes)| {
            Ok(Settled { tensors: number(tensors as u64), bytes: number(bytes) })
        })
    }

    /// Copies the tensors from one place to another, one after the other; blocks of a file that the wrapper writes go through
    /// `outflow`.
    #[napi(ts_return_type = "Promise<void>", catch_unwind)]
    #[allow(clippy::too_many_arguments)] // a range, what reads it and where it goes
    pub fn copy<'env>(
        &self,
        env: &'env Env,
        file: &NativeFile,
        writer: &NativeWriter,
        from: u32,
        end: u32,
        control: &Control,
        stage: Option<&Stage>,
        outflow: Option<&Outflow>,
    ) -> Result<Object<'env>> {
        let (slot, source) = (Arc::clone(writer.slot()), file.reader(env, control, stage)?);
        let lane = writer.or_remote(source.shared.or_remote(Lane::Long));
        let (chosen, bytes) = {
            let inner = locked(&self.inner);
            (Arc::clone(&inner.chosen), inner.bytes)
        };
        let casts = Arc::clone(&self.casts);
        let maker = throw(env, outflow.map(Outflow::maker).transpose())?;
        let aside = maker.is_some();
        let job = move || {
            source.read(|reading| {
                let range = Range { chosen: &chosen, from: from as usize, end: end as usize };
                let copy = |writer: &mut Writer| {
                    if from == 0 {
                        writer.expect(bytes);
                    }
                    range.copy(reading, &casts, writer)
                };
                with_writer(&slot, |writer| match maker {
                    Some(maker) => writer.passing(Box::new(maker), copy),
                    None => copy(writer),
                })
            })
        };
        if aside {
            spawn_aside(env, control, job, |_, ()| Ok(()))
        } else {
            spawn(env, lane, control, job, |_, ()| Ok(()))
        }
    }
}

/// What is left of a selection.
#[napi(object, object_from_js = false)]
pub struct Settled {
    pub tensors: f64,
    pub bytes: f64,
}

impl Inner {
    fn look(&mut self, reading: Reading<'_>, wanted: Wanted<'_>) -> CoreResult<Selected> {
        let (catalog, chosen) = (reading.catalog, Arc::clone(&self.chosen));
        chosen.check_names(catalog)?;
        let (mut places, mut ordinals) = (Vec::new(), Vec::new());
        let (mut bytes, mut judged_bytes) = (0_u64, 0_u64);
        for (at, tensor) in chosen.tensors(catalog) {
            if at % 4096 == 0 {
                reading.watch.stop.check()?;
            }
            let stored = stored_bytes(tensor);
            bytes = bytes.saturating_add(stored);
            if let Some(error) = convert::refusal(catalog, tensor, &chosen.name(at, tensor), wanted) {
                self.refused.push((at, error));
            } else if convert::is_judged(tensor, wanted) {
                places.push(at);
                ordinals.extend(chosen.ordinals().get(at));
                judged_bytes = judged_bytes.saturating_add(stored);
            }
        }
        self.attributes = convert::attribute_refusal(&catalog.attributes, wanted.format, wanted.canonical);
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let selected = Selected {
            tensors: count(chosen.len()),
            bytes: number(bytes),
            refused: count(self.refused.len()),
            judged: count(places.len()),
            judged_bytes: number(judged_bytes),
            attributes: self.attributes.is_none(),
        };
        self.judged = Arc::new((places, ordinals));
        Ok(selected)
    }
}

/// Some of the tensors.
struct Range<'a> {
    chosen: &'a Chosen,
    from: usize,
    end: usize,
}

impl Range<'_> {
    fn copy(&self, reading: Reading<'_>, casts: &Casts, writer: &mut Writer) -> CoreResult<()> {
        let count = self.end.saturating_sub(self.from);
        let tensors = self.chosen.tensors(reading.catalog).skip(self.from).take(count);
        self.expect(reading.watch, tensors.clone().map(|(_, tensor)| stored_bytes(tensor)));
        let ahead = ReadAhead::new(reading.sources, reading.catalog.shards.len());
        let reading = Reading { sources: &ahead, ..reading };
        for (at, tensor) in tensors {
            convert::copy(reading, tensor, &self.chosen.name(at, tensor), casts, writer)?;
            reading.watch.did_tensor();
        }
        Ok(())
    }

    fn expect(&self, watch: &Watch, stored: impl Iterator<Item = u64>) {
        watch.expect(stored.fold(0, u64::saturating_add), self.end.saturating_sub(self.from) as u64);
    }
}

/// Which dtypes become which: `[from, to, from, to, …]`.
fn pairs(env: &Env, codes: &[u32]) -> Result<Casts> {
    let named = |code: &u32| dtype(Some(*code))?.ok_or_else(|| misuse("no such dtype"));
    let pairs = codes.as_chunks::<2>().0.iter().map(|[from, to]| Ok((named(from)?, named(to)?)));
    throw(env, Casts::new(pairs.collect::<Result<_>>()?))
}
