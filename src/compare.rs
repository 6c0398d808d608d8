//! Comparison of two tensors, of one file or of two.

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::compare::{self, Comparison, Tolerance};
use ztensor_core::elements::Elements;
use ztensor_core::error::Result as CoreResult;
use ztensor_core::read::Reading;

use crate::control::Control;
use crate::file::NativeFile;
use crate::index::number;
use crate::opened::Reader;
use crate::stage::Stage;
use crate::task::spawn;

/// What was found.
#[napi(object, object_from_js = false)]
pub struct NativeComparison {
    pub elements: f64,
    pub identical: bool,
    pub differing: f64,
    pub first: Option<f64>,
    pub unmatched_nan: f64,
    pub max_absolute: f64,
    pub max_relative: f64,
}

/// A tensor, or one component of it: the ordinals, the component's -1 for the tensor.
struct Side {
    source: Reader,
    ordinal: u32,
    component: Option<u32>,
}

impl Side {
    fn new(
        env: &Env,
        file: &NativeFile,
        place: &[i32],
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Self> {
        let at = |at: usize| place.get(at).and_then(|&ordinal| u32::try_from(ordinal).ok());
        let source = file.reader(env, control, stage)?;
        Ok(Self { source, ordinal: at(0).unwrap_or(u32::MAX), component: at(1) })
    }

    fn elements<'a>(&'a self, reading: &Reading<'a>) -> CoreResult<Elements<'a>> {
        match self.component {
            None => Elements::of_tensor(reading, self.source.shared.tensor(self.ordinal)?),
            Some(component) => {
                let (tensor, component) = self.source.shared.part(self.ordinal, component)?;
                Elements::of_component(reading, tensor, component)
            }
        }
    }
}

/// Compares two tensors or components; `places` are their ordinals, `tolerance` absolute and relative.
#[napi(ts_return_type = "Promise<NativeComparison>", catch_unwind)]
#[allow(clippy::too_many_arguments)] // two of each
pub fn compare<'env>(
    env: &'env Env,
    first: &NativeFile,
    first_place: Vec<i32>,
    second: &NativeFile,
    second_place: Vec<i32>,
    tolerance: Vec<f64>,
    control: &Control,
    first_stage: Option<&Stage>,
    second_stage: Option<&Stage>,
) -> Result<Object<'env>> {
    let a = Side::new(env, first, &first_place, control, first_stage)?;
    let b = Side::new(env, second, &second_place, control, second_stage)?;
    let given = |at: usize| tolerance.get(at).copied().unwrap_or_default();
    let tolerance = Tolerance { absolute: given(0), relative: given(1) };
    let job = move || {
        a.source.read(|reading_a| {
            b.source.read(|reading_b| {
                let (a, b) = (a.elements(&reading_a)?, b.elements(&reading_b)?);
                Ok((a.count, compare::compare(&a, &b, tolerance, reading_a.watch)?))
            })
        })
    };
    spawn(env, job, |_, (elements, found): (u64, Comparison)| {
        Ok(NativeComparison {
            elements: number(elements),
            identical: found.identical,
            differing: number(found.differing),
            first: found.first.map(number),
            unmatched_nan: number(found.unmatched_nan),
            max_absolute: found.max_absolute,
            max_relative: found.max_relative,
        })
    })
}
