//! Conversion of a verification result to JavaScript.

use napi_derive::napi;
use ztensor_core::verify::Outcome;

use crate::js::error::NativeError;
use ztensor_handover::number;

/// The result of a verification.
#[napi(object, object_from_js = false)]
pub struct Verified {
    pub checked: f64,
    pub undigested: f64,
    pub failed: f64,
    pub failures: Vec<NativeError>,
}

impl From<Outcome> for Verified {
    fn from(outcome: Outcome) -> Self {
        Self {
            checked: number(outcome.checked),
            undigested: number(outcome.undigested),
            failed: number(outcome.failed),
            failures: outcome.failures.iter().map(NativeError::from).collect(),
        }
    }
}
