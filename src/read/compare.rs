//! Comparison of tensors of one or two files.

use napi::bindgen_prelude::{Int32Array, Object};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::analysis::compare::{PairResult, Request, Side, Tolerance, compare_all};
use ztensor_core::error::Result as CoreResult;
use ztensor_core::work::lanes::Lane;

use crate::js::control::Control;
use crate::js::error::NativeError;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::opened::Shared;
use crate::read::stage::Stage;
use ztensor_handover::number;

/// The result for one pair, or why there is none.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct NativeComparison {
    pub elements: f64,
    pub identical: bool,
    pub differing: f64,
    pub first: Option<f64>,
    pub unmatched_nan: f64,
    pub max_absolute: f64,
    pub max_relative: f64,
    /// Both only with `norms`, for tensors that are not identical.
    pub relative_change: Option<f64>,
    pub cosine: Option<f64>,
    pub error: Option<NativeError>,
}

impl From<PairResult> for NativeComparison {
    fn from(found: PairResult) -> Self {
        match found {
            Ok((elements, found)) => Self {
                elements: number(elements),
                identical: found.identical,
                differing: number(found.differing),
                first: found.first.map(number),
                unmatched_nan: number(found.unmatched_nan),
                max_absolute: found.max_absolute,
                max_relative: found.max_relative,
                relative_change: found.norms.and_then(|norms| norms.relative_change()),
                cosine: found.norms.and_then(|norms| norms.cosine()),
                error: None,
            },
            Err(error) => Self { error: Some(NativeError::from(&error)), ..Self::default() },
        }
    }
}

fn side(file: &Shared, ordinal: i32, component: i32) -> CoreResult<Side<'_>> {
    let ordinal = u32::try_from(ordinal).unwrap_or(u32::MAX);
    let Ok(component) = u32::try_from(component) else {
        return Ok(Side { tensor: file.tensor(ordinal)?, component: None });
    };
    let (tensor, component) = file.part(ordinal, component)?;
    Ok(Side { tensor, component: Some(component) })
}

/// Compares tensors or components of two files, pair by pair. `places`: four numbers per pair: for each side the ordinal of its tensor and
/// that of its component, or -1 for the tensor; `tolerance`: absolute and relative; `norms`: also compute how the tensors differ as vectors.
#[napi(ts_return_type = "Promise<Array<NativeComparison>>", catch_unwind)]
#[allow(clippy::too_many_arguments)] // two of each
pub fn compare<'env>(
    env: &'env Env,
    first: &NativeFile,
    second: &NativeFile,
    places: Int32Array,
    #[napi(ts_arg_type = "readonly number[]")] tolerance: Vec<f64>,
    norms: bool,
    control: &Control,
    first_stage: Option<&Stage>,
    second_stage: Option<&Stage>,
) -> Result<Object<'env>> {
    let a = first.reader(env, control, first_stage)?;
    let b = second.reader(env, control, second_stage)?;
    let places = places.to_vec();
    let ordinals = |side: usize| -> Vec<u32> {
        let places = places.iter().skip(side * 2).step_by(4);
        places.filter_map(|&ordinal| u32::try_from(ordinal).ok()).collect()
    };
    let lanes = [a.shared.lane(&ordinals(0)), b.shared.lane(&ordinals(1))];
    let longest = [Lane::Remote, Lane::Long].into_iter().find(|lane| lanes.contains(lane));
    let lane = longest.unwrap_or(Lane::Short);
    let given = |at: usize| tolerance.get(at).copied().unwrap_or_default();
    let request = Request { tolerance: Tolerance { absolute: given(0), relative: given(1) }, norms };
    let job = move || {
        a.read(|reading_a| {
            b.read(|reading_b| {
                let pairs = places.as_chunks::<4>().0.iter().map(|&[tensor, part, other, other_part]| {
                    Ok([side(&a.shared, tensor, part)?, side(&b.shared, other, other_part)?])
                });
                compare_all([reading_a, reading_b], &pairs.collect::<CoreResult<Vec<_>>>()?, request)
            })
        })
    };
    spawn(env, lane, control, job, |_, found: Vec<PairResult>| {
        Ok(found.into_iter().map(NativeComparison::from).collect::<Vec<_>>())
    })
}
