//! The one error type. Every rejection says what, where and which rule of which specification.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// Characters shown of a name, and of a whole message.
pub const NAME: usize = 160;
pub const MESSAGE: usize = 600;
/// Maximum characters of a message that lists several failures, and maximum failures stored individually.
const LISTING: usize = 2 << 10;
const LISTED: usize = 1000;
/// Maximum hints of such a message.
const HINTS: usize = 16;

/// The stable codes that callers match on. One table in the README documents them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Code {
    Truncated,
    BadMagic,
    BadIndex,
    /// Files of a set are missing.
    Incomplete,
    OutOfBounds,
    BadShape,
    BadDtype,
    BadLayout,
    BadSparse,
    BadDigest,
    DigestMismatch,
    Decode,
    UnsupportedVersion,
    UnsupportedEncoding,
    Limit,
    NotFound,
    Exists,
    Closed,
    MappingLost,
    /// The bytes are elsewhere, where the caller may not wait for them.
    NotLocal,
    Io,
    InvalidArg,
    /// A file that is valid and not in canonical form, where that was asked.
    NotCanonical,
    /// The caller's abort signal stopped the work; never reaches users, who get `signal.reason`.
    Aborted,
    Internal,
}

impl Code {
    /// The code as users see it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "ZT_TRUNCATED",
            Self::BadMagic => "ZT_BAD_MAGIC",
            Self::BadIndex => "ZT_BAD_INDEX",
            Self::Incomplete => "ZT_INCOMPLETE",
            Self::OutOfBounds => "ZT_OUT_OF_BOUNDS",
            Self::BadShape => "ZT_BAD_SHAPE",
            Self::BadDtype => "ZT_BAD_DTYPE",
            Self::BadLayout => "ZT_BAD_LAYOUT",
            Self::BadSparse => "ZT_BAD_SPARSE",
            Self::BadDigest => "ZT_BAD_DIGEST",
            Self::DigestMismatch => "ZT_DIGEST_MISMATCH",
            Self::Decode => "ZT_DECODE",
            Self::UnsupportedVersion => "ZT_UNSUPPORTED_VERSION",
            Self::UnsupportedEncoding => "ZT_UNSUPPORTED_ENCODING",
            Self::Limit => "ZT_LIMIT",
            Self::NotFound => "ZT_NOT_FOUND",
            Self::Exists => "ZT_EXISTS",
            Self::Closed => "ZT_CLOSED",
            Self::MappingLost => "ZT_MAPPING_LOST",
            Self::NotLocal => "ZT_NOT_LOCAL",
            Self::Io => "ZT_IO",
            Self::InvalidArg => "ZT_INVALID_ARG",
            Self::NotCanonical => "ZT_NOT_CANONICAL",
            Self::Aborted => "ZT_ABORTED",
            Self::Internal => "ZT_INTERNAL",
        }
    }
}

/// The error of the operating system, stored separately so that a host can create its own kind of error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Os {
    /// The raw error number, where there is one.
    pub errno: Option<i32>,
    /// The call that failed: `open`, `stat`, `read`, `mmap`.
    pub syscall: &'static str,
}

/// The part of a message that says which option of the caller changes the outcome. A host whose users do not write JavaScript can say it
/// in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The option, as JavaScript names it; a dot for an option within another: `remote.timeout`.
    pub option: &'static str,
    /// The part of the message, as it stands there.
    pub text: Cow<'static, str>,
}

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    /// The option that the message is about and begins with.
    about: Option<&'static str>,
    hints: Vec<Hint>,
    tensor: Option<String>,
    component: Option<String>,
    offset: Option<u64>,
    rule: Option<&'static str>,
    os: Option<Os>,
    path: Option<PathBuf>,
    context: Option<String>,
    causes: Vec<Error>,
    /// The number under which the host keeps an error that its own code threw.
    thrown: Option<u32>,
    /// The status of HTTP that a server answered with.
    status: Option<u16>,
    /// There is no such file.
    absent: bool,
    /// It is one item that asks for too much.
    of_item: bool,
}

/// A failure. Boxed, so that a `Result` stays one word wide on the fast path.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Error(Box<Inner>);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        let message = short(&message, MESSAGE).into_owned();
        Self(Box::new(Inner {
            code,
            message,
            about: None,
            hints: Vec::new(),
            tensor: None,
            component: None,
            offset: None,
            rule: None,
            os: None,
            path: None,
            context: None,
            causes: Vec::new(),
            thrown: None,
            status: None,
            absent: false,
            of_item: false,
        }))
    }

    /// Names the option that changes the outcome, at the end of the message: ` (option overwrite)`.
    #[must_use]
    pub fn option(self, option: &'static str) -> Self {
        self.hint(option, format!(" (option {option})"))
    }

    /// Like [`Error::option`], in other words: `text` becomes the end of the message. It must be possible to leave it out.
    #[must_use]
    pub fn hint(mut self, option: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        self.0.message.push_str(&text);
        self.0.hints.push(Hint { option, text });
        self
    }

    /// Says which option is invalid. The message begins with its name.
    #[must_use]
    pub fn about(mut self, option: &'static str) -> Self {
        self.0.about = Some(option);
        self
    }

    /// An error with the same code and hints and another message, which usually contains the old one.
    #[must_use]
    pub fn reworded(&self, message: impl Into<String>) -> Self {
        let mut made = Self::new(self.code(), message);
        made.0.hints.clone_from(&self.0.hints);
        made
    }

    /// What code of the host threw, which the host keeps under a number.
    pub fn thrown(message: impl Into<String>, number: u32) -> Self {
        let mut made = Self::new(Code::Io, message);
        made.0.thrown = Some(number);
        made
    }

    /// The status of HTTP that a server answered with.
    #[must_use]
    pub fn answered(mut self, status: Option<u16>) -> Self {
        self.0.status = status;
        self
    }

    /// A failed system call, in the system's words without Rust's number of it.
    pub fn io(syscall: &'static str, error: &std::io::Error) -> Self {
        let text = error.to_string();
        let text = text.rsplit_once(" (os error ").map_or(&*text, |(words, _)| words);
        let mut made = Self::new(Code::Io, format!("{syscall}: {text}"));
        made.0.os = Some(Os { errno: error.raw_os_error(), syscall });
        made.0.absent = error.kind() == std::io::ErrorKind::NotFound;
        made
    }

    /// Says that it is one item, such as the shape of a tensor, that asks for too much: others may be read.
    #[must_use]
    pub fn of_item(mut self) -> Self {
        self.0.of_item = true;
        self
    }

    /// Whether it is about one item of a file, so that the others can be read. The other errors are about the whole file: it cannot be
    /// read, or it asks for too much, as the next item would.
    pub fn is_of_item(&self) -> bool {
        let is_of_file = matches!(
            self.0.code,
            Code::Io
                | Code::Aborted
                | Code::Closed
                | Code::Internal
                | Code::Limit
                | Code::MappingLost
                | Code::NotLocal
        );
        self.0.of_item || !is_of_file
    }

    /// Says that there is no such file.
    #[must_use]
    pub fn absent(mut self) -> Self {
        self.0.absent = true;
        self
    }

    /// Whether there is no such file, as the system, a server or code of the host reported.
    pub fn is_absent(&self) -> bool {
        self.0.absent || matches!(self.0.status, Some(404 | 410))
    }

    /// The failure of a set whose files are missing: `ZT_INCOMPLETE` where that is all that is wrong, else the error itself.
    #[must_use]
    pub fn of_set(mut self) -> Self {
        let alone = self.0.causes.is_empty() && self.is_absent();
        if alone || (!self.0.causes.is_empty() && self.0.causes.iter().all(Self::is_absent)) {
            self.0.code = Code::Incomplete;
        }
        self
    }

    /// Combines several failures into one error with the code of the first: its message lists them, and each is stored. A single
    /// error is returned unchanged.
    pub fn all(what: &str, mut errors: Vec<Self>) -> Option<Self> {
        if errors.len() < 2 {
            return errors.pop();
        }
        let mut made = Self::new(errors.first()?.code(), "");
        let mut message = format!("{what}: {} problems", errors.len());
        for (at, error) in errors.iter().enumerate() {
            let text = error.to_string();
            if message.len() + text.len() > LISTING {
                message.extend(["; and ", &(errors.len() - at).to_string(), " more"]);
                break;
            }
            message.push_str(if at == 0 { ": " } else { "; " });
            message.push_str(&text);
        }
        for hint in errors.iter().flat_map(Self::hints) {
            if made.0.hints.len() < HINTS && !made.0.hints.contains(hint) {
                made.0.hints.push(hint.clone());
            }
        }
        errors.truncate(LISTED);
        made.0.message = message;
        made.0.causes = errors;
        Some(made)
    }

    /// Names the tensor, unless an inner call already did.
    #[must_use]
    pub fn tensor(mut self, name: &str) -> Self {
        self.0.tensor.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Names the component, unless an inner call already did.
    #[must_use]
    pub fn component(mut self, role: &str) -> Self {
        self.0.component.get_or_insert_with(|| role.to_owned());
        self
    }

    /// The byte of the file at which the rule is broken.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }

    /// The section of the specification that the input breaks.
    #[must_use]
    pub fn rule(mut self, rule: &'static str) -> Self {
        self.0.rule.get_or_insert(rule);
        self
    }

    /// The file, where it is not the one that the caller named.
    #[must_use]
    pub fn file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Names one file of several, in the message as well.
    #[must_use]
    pub fn in_file(mut self, name: &str, path: &Path) -> Self {
        self.0.message = format!("'{}': {}", short(name, NAME), self.0.message);
        self.file(path)
    }

    /// Says what the file was wanted for, such as "the index 'a.json' names a file that cannot be read", before everything else.
    #[must_use]
    pub fn context(mut self, context: String) -> Self {
        self.0.context.get_or_insert(context);
        self
    }

    pub fn code(&self) -> Code {
        self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The option that is invalid, or the first one that changes the outcome.
    pub fn first_option(&self) -> Option<&'static str> {
        self.0.about.or_else(|| self.0.hints.first().map(|hint| hint.option))
    }

    /// The options that change the outcome, in the order of the message.
    pub fn hints(&self) -> &[Hint] {
        &self.0.hints
    }

    pub fn tensor_name(&self) -> Option<&str> {
        self.0.tensor.as_deref()
    }

    pub fn component_role(&self) -> Option<&str> {
        self.0.component.as_deref()
    }

    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    pub fn broken_rule(&self) -> Option<&'static str> {
        self.0.rule
    }

    pub fn os(&self) -> Option<&Os> {
        self.0.os.as_ref()
    }

    /// The failures of which this one is the sum.
    pub fn causes(&self) -> &[Self] {
        &self.0.causes
    }

    /// The status of HTTP that a server answered with.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// The number of what code of the host threw.
    pub fn thrown_by_host(&self) -> Option<u32> {
        self.0.thrown
    }

    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    pub fn wanted_for(&self) -> Option<&str> {
        self.0.context.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(context) = &self.0.context {
            write!(f, "{context}: ")?;
        }
        if let Some(tensor) = &self.0.tensor {
            write!(f, "tensor {:?}", short(tensor, NAME))?;
            if let Some(component) = &self.0.component {
                write!(f, ", component {:?}", short(component, NAME))?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)
    }
}

/// As much of a text as a message needs: texts come from files.
pub fn short(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => text.into(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_file_is_not_one_of_an_item() {
        let of_file = [
            Code::Io,
            Code::Aborted,
            Code::Closed,
            Code::Internal,
            Code::Limit,
            Code::MappingLost,
            Code::NotLocal,
        ];
        for code in of_file {
            assert!(!Error::new(code, "").is_of_item(), "{code:?}");
            assert!(Error::new(code, "").of_item().is_of_item(), "{code:?}");
        }
        assert!(Error::new(Code::Truncated, "").is_of_item());
    }

    #[test]
    fn a_hint_is_a_part_of_the_message() {
        let error = Error::new(Code::Exists, "'a' exists").option("overwrite").hint("shards", ", or list it");
        assert_eq!(error.message(), "'a' exists (option overwrite), or list it");
        assert_eq!(error.hints().iter().map(|hint| hint.option).collect::<Vec<_>>(), ["overwrite", "shards"]);
        let again = error.reworded(format!("later: {}", error.message()));
        assert_eq!((again.code(), again.hints()), (Code::Exists, error.hints()));
        assert_eq!(error.first_option(), Some("overwrite"));
        assert_eq!(error.about("target").first_option(), Some("target"));
        // A long message is cut, and its hint is not.
        let long = Error::new(Code::Limit, "x".repeat(2 * MESSAGE)).option("maxRank");
        assert!(long.message().ends_with("… (option maxRank)"));
    }

    #[test]
    fn several_errors_have_the_hints_of_each() {
        let limit = || Error::new(Code::Limit, "too large").option("maxRank");
        let all = Error::all("two files", vec![limit(), limit(), Error::new(Code::Io, "no")]).unwrap();
        assert_eq!(all.hints(), limit().hints());
    }
}
