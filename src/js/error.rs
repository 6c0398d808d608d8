//! The only module that converts errors to JavaScript values: a plain object that the wrapper turns into a `ZTensorError` (or, for a bad
//! argument, a TypeError).

use napi::bindgen_prelude::{JsValue as _, Object, Unknown};
use napi::{Env, Error, Result, Status};
use napi_derive::napi;
use ztensor_core::error::{Error as CoreError, Hint};

use ztensor_handover::number;

/// A part of a message that names an option.
#[napi(object, object_from_js = false)]
pub struct NativeHint {
    pub option: String,
    pub text: String,
}

/// A core error as a plain object.
#[napi(object, object_from_js = false)]
pub struct NativeError {
    #[napi(ts_type = "import('./errors.js').ErrorCode | 'ZT_ABORTED'")]
    pub code: String,
    pub message: String,
    /// The option that is invalid, or the first of `hints`.
    pub option: Option<String>,
    /// The parts of the message that say which options change the outcome.
    pub hints: Vec<NativeHint>,
    pub tensor: Option<String>,
    pub component: Option<String>,
    pub offset: Option<f64>,
    pub rule: Option<String>,
    /// The failed call and its error number, for `ZT_IO`.
    pub syscall: Option<String>,
    pub errno: Option<i32>,
    /// The file, if it is not the one that the caller specified.
    pub path: Option<String>,
    /// The purpose of accessing the file. `message` begins with it.
    pub context: Option<String>,
    /// The number under which the wrapper stores the exception thrown by the caller's code.
    pub thrown: Option<u32>,
    /// The HTTP status of a server's response.
    pub status: Option<u16>,
    /// The failures that this one combines.
    pub causes: Vec<NativeError>,
}

impl From<&Hint> for NativeHint {
    fn from(Hint { option, text }: &Hint) -> Self {
        Self { option: (*option).to_owned(), text: text.clone().into_owned() }
    }
}

impl From<&CoreError> for NativeError {
    fn from(error: &CoreError) -> Self {
        Self {
            code: error.code().name().to_owned(),
            message: error.to_string(),
            option: error.first_option().map(str::to_owned),
            hints: error.hints().iter().map(NativeHint::from).collect(),
            tensor: error.tensor_name().map(str::to_owned),
            component: error.component_role().map(str::to_owned),
            offset: error.offset().map(number),
            rule: error.broken_rule().map(str::to_owned),
            syscall: error.os().map(|os| os.syscall.to_owned()),
            errno: error.os().and_then(|os| os.errno),
            path: error.path().map(|path| path.to_string_lossy().into_owned()),
            context: error.wanted_for().map(str::to_owned),
            thrown: error.thrown_by_host(),
            status: error.status(),
            causes: error.causes().iter().map(Self::from).collect(),
        }
    }
}

/// Converts the error to a value to throw or reject with: an Error with the fields of [`NativeError`], because other values are wrapped
/// when thrown.
pub fn to_js(env: &Env, error: &CoreError) -> Error {
    thrown(env, &NativeError::from(error)).map_or_else(|failed| failed, Error::from)
}

fn thrown<'env>(env: &'env Env, error: &NativeError) -> Result<Unknown<'env>> {
    let mut object = env.create_error(Error::from_reason(error.message.clone()))?;
    object.set("code", error.code.as_str())?;
    object.set("option", error.option.as_deref())?;
    let hints = error.hints.iter().map(|hint| {
        let mut object = Object::new(env)?;
        object.set("option", hint.option.as_str())?;
        object.set("text", hint.text.as_str())?;
        Ok(object)
    });
    object.set("hints", hints.collect::<Result<Vec<_>>>()?)?;
    object.set("tensor", error.tensor.as_deref())?;
    object.set("component", error.component.as_deref())?;
    object.set("offset", error.offset)?;
    object.set("rule", error.rule.as_deref())?;
    object.set("syscall", error.syscall.as_deref())?;
    object.set("errno", error.errno)?;
    object.set("path", error.path.as_deref())?;
    object.set("context", error.context.as_deref())?;
    object.set("thrown", error.thrown)?;
    object.set("status", error.status)?;
    if !error.causes.is_empty() {
        let causes = error.causes.iter().map(|cause| thrown(env, cause)).collect::<Result<Vec<_>>>()?;
        object.set("causes", causes)?;
    }
    Ok(object.to_unknown())
}

/// Throws a core error from a synchronous function.
pub fn throw<T>(env: &Env, result: ztensor_core::error::Result<T>) -> Result<T> {
    result.map_err(|error| to_js(env, &error))
}

/// Builds the error for a wrapper call that violates the binding's contract; users never cause it.
pub fn misuse(what: &str) -> Error {
    Error::new(Status::InvalidArg, format!("internal: {what}"))
}
