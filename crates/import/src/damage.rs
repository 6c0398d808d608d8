//! Items of a file that are damaged, while the others can be read: each is a warning, and a failure of `verify`. None of them refuses the
//! file, and none vanishes.
#![forbid(unsafe_code)]

use ztensor_core::error::{Code, Error, NAME, Result, short};
use ztensor_core::model::{Builder, Catalog};

/// The code of a warning of damage.
pub fn warning_of(code: Code) -> &'static str {
    if code == Code::Truncated { "ZT_WARN_TRUNCATED" } else { "ZT_WARN_DAMAGED" }
}

/// Passes on what was read of an item called `name`, or says that it is damaged and not listed. Fails where the file cannot be read.
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

/// Passes on what was read of an item, or keeps why that makes no sense, the first time. Fails where the file cannot be read.
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

/// Says that an item called `name` is damaged and not listed.
pub fn report(builder: &mut Builder, name: &str, error: &Error) {
    let message = format!("{}: {}", short(name, NAME), error.message());
    builder.damaged(warning_of(error.code()), error, message, None);
}

/// The damage of a file whose tensors are its only items: one without any other is refused.
#[derive(Default)]
pub struct Damage {
    first: Option<Error>,
}

impl Damage {
    /// Records damage. The error names the tensor, also where that is not listed.
    pub fn note(&mut self, builder: &mut Builder, error: Error) {
        builder.damaged(warning_of(error.code()), &error, error.message().to_owned(), error.tensor_name());
        self.first.get_or_insert(error);
    }

    /// Records a failure of one item, and passes on any other.
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

    /// The catalog. A file of which damage left no tensor is refused with the first error.
    pub fn finish(self, builder: Builder) -> Result<Catalog> {
        match self.first {
            Some(error) if builder.is_empty() => Err(error),
            _ => Ok(builder.finish()),
        }
    }
}
