//! Whether a file is in the canonical form of its format, and which rules of that it breaks where.
#![forbid(unsafe_code)]

use crate::error::{Code, Error, Result};
use crate::formats::WriteFormat;
use crate::read::Reading;
use crate::verify::Outcome;

/// Checks the form alone: [`crate::verify`] compares the digests that this relies on.
pub fn check(reading: Reading<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let Some(form) = WriteFormat::of(reading.catalog).and_then(|format| format.canonical) else {
        let error = Error::new(Code::NotCanonical, "only zTensor 2 has a canonical form");
        outcome.fail(error.rule("zTensor 2 §6.3 Canonical form"));
        return Ok(outcome);
    };
    let source = reading.sources.source(0)?;
    (form.check)(reading.catalog, source, &reading.watch.stop, &mut |error| outcome.fail(error))?;
    Ok(outcome)
}
