//! Damaged items of a file whose other items can be read. Each yields a warning and a failure of `verify`; the file is still opened, and no
//! damaged item is dropped silently.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::model::{Builder, Catalog};

/// Returns the warning code for damage.
pub fn warning_of(code: Code) -> &'static str {
    if code == Code::Truncated { "ZT_WARN_TRUNCATED" } else { "ZT_WARN_DAMAGED" }
}

/// Returns what was read of the item `name`, or reports it as damaged and unlisted. Fails if the file cannot be read.
pub fn recover<T>(builder: &mut Builder, name: &str, read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_of_item() => {
            report(builder, name, &error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns what was read of an item, or stores the first error about its content. Fails if the file cannot be read.
pub fn noted<T>(read: Result<T>, wrong: &mut Option<Error>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if error.is_of_item() => {
            wrong.get_or_insert(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reports that the item `name` is damaged and not listed.
pub fn report(builder: &mut Builder, name: &str, error: &Error) {
    let message = format!("{}: {}", short(name, NAME), error.message());
    builder.damaged(warning_of(error.code()), error, message, None);
}

/// The damage of a file that holds only tensors. If no tensor is left, the file is rejected.
#[derive(Default)]
pub struct Damage {
    first: Option<Error>,
}

impl Damage {
    /// Records damage. The error names the tensor even if it is not listed.
    pub fn note(&mut self, builder: &mut Builder, error: Error) {
        builder.damaged(warning_of(error.code()), &error, error.message().to_owned(), error.tensor_name());
        self.first.get_or_insert(error);
    }

    /// Records an error that concerns one item and returns any other error.
    pub fn of_item(&mut self, builder: &mut Builder, read: Result<()>) -> Result<()> {
        match read {
            Err(error) if error.is_of_item() => {
                self.note(builder, error);
                Ok(())
            }
            other => other,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Builds the catalog. If damage left no tensor, returns the first error.
    pub fn finish(self, builder: Builder) -> Result<Catalog> {
        match self.first {
            Some(error) if builder.is_empty() => Err(error),
            _ => Ok(builder.finish()),
        }
    }
}
