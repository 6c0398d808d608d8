//! Problems that do not undo a file.
#![forbid(unsafe_code)]

/// A problem that occurred after the file was renamed into place, when it could no longer be aborted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    pub code: &'static str,
    pub message: String,
}
