//! An exact search in a table.

use napi::bindgen_prelude::{Float32Array, Object};
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::analysis::nearest::Request;
use ztensor_core::kernels::distance::Metric;

use crate::js::control::Control;
use crate::js::error::misuse;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::stage::Stage;
use ztensor_handover::number;

/// What to search.
#[napi(object, object_to_js = false)]
pub struct NearestRequest {
    /// As many finite numbers as the table has columns.
    pub query: Float32Array,
    pub k: u32,
    /// `dot`, `cosine` or `euclidean`.
    pub metric: String,
}

/// The nearest rows and their scores, the nearest first.
#[napi(object, object_from_js = false)]
pub struct Nearest {
    pub rows: Vec<f64>,
    pub scores: Vec<f64>,
}

#[napi]
impl NativeFile {
    #[napi(ts_return_type = "Promise<Nearest>", catch_unwind)]
    pub fn nearest<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        request: NearestRequest,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.lane(&[ordinal]);
        let metric =
            Metric::from_name(&request.metric).ok_or_else(|| misuse("a metric that does not exist"))?;
        let request = Request { query: request.query.to_vec(), k: request.k as usize, metric };
        let job = move || source.read(|reading| reading.nearest(source.shared.tensor(ordinal)?, &request));
        spawn(env, lane, control, job, |_, found| {
            let (rows, scores) = found.into_iter().map(|found| (number(found.row), found.score)).unzip();
            Ok(Nearest { rows, scores })
        })
    }
}
