//! Statistics of a tensor.

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;
use ztensor_core::analysis::stats::{Request, Stats};

use crate::js::control::Control;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::stage::Stage;
use ztensor_handover::number;

/// Options for statistics.
#[napi(object)]
pub struct StatsRequest {
    /// Bins of the histogram; 0 for none.
    pub bins: u32,
    /// First and last edge.
    #[napi(ts_type = "[first: number, last: number] | undefined")]
    pub range: Option<Vec<f64>>,
}

/// The resulting statistics.
#[napi(object, object_from_js = false)]
pub struct TensorStats {
    pub count: f64,
    pub nan: f64,
    pub positive_infinite: f64,
    pub negative_infinite: f64,
    pub zeros: f64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub std: f64,
    pub edges: Option<Vec<f64>>,
    pub counts: Option<Vec<f64>>,
}

impl From<Stats> for TensorStats {
    fn from(stats: Stats) -> Self {
        let (edges, counts) = stats.histogram.map(|histogram| (histogram.edges, histogram.counts)).unzip();
        Self {
            count: number(stats.count),
            nan: number(stats.nan),
            positive_infinite: number(stats.positive_infinite),
            negative_infinite: number(stats.negative_infinite),
            zeros: number(stats.zeros),
            min: stats.min,
            max: stats.max,
            mean: stats.mean,
            std: stats.std,
            edges,
            counts: counts.map(|counts| counts.into_iter().map(number).collect()),
        }
    }
}

#[napi]
impl NativeFile {
    #[napi(ts_return_type = "Promise<TensorStats>", catch_unwind)]
    pub fn stats<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        request: StatsRequest,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.lane(&[ordinal]);
        let range = match request.range.as_deref() {
            Some(&[first, last]) => Some((first, last)),
            _ => None,
        };
        let request = Request { bins: request.bins, range };
        let job = move || source.read(|reading| reading.stats(source.shared.tensor(ordinal)?, &request));
        spawn(env, lane, control, job, |_, stats| Ok(TensorStats::from(stats)))
    }
}
