//! Messages for what the clients of stores report.

use std::time::Duration;

use object_store::client::HttpErrorKind;
use reqwest::Url;
use ztensor_core::error::{Code, Error, short};

use super::connector;
use crate::errors::{self, Failure, Passing};

const NO_CREDENTIALS: &str = "no credentials were found: set them in the environment (AWS_ACCESS_KEY_ID, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY)";
/// The hint for a store without credentials.
const ANONYMOUS: &str = ", or pass remote: { store: { anonymous: true } } for public data";

/// The error for a store that its client cannot use as it is configured.
pub fn refused(scheme: &str, error: &object_store::Error) -> Error {
    let text = chain(error);
    let has_no_account = text.contains("Account must be specified");
    let message = if has_no_account {
        "no account is set: set AZURE_STORAGE_ACCOUNT_NAME".to_owned()
    } else if text.contains("Invalid Access Key") {
        "the account key is not base64: check AZURE_STORAGE_ACCOUNT_KEY".to_owned()
    } else if let Some((_, file)) = text.split_once("Unable to open service account file from ") {
        format!("the file of the credentials cannot be opened: {}", scrubbed(file))
    } else {
        format!("its settings are invalid: {}", scrubbed(bare(&text)))
    };
    let error = Error::new(Code::InvalidArg, format!("the store of {scheme}: cannot be used: {message}"));
    if has_no_account {
        error.hint("remote.store.account", ", or pass remote: { store: { account } }")
    } else {
        error
    }
}

/// Removes what the clients of stores put before the reason: `Generic S3 error: `, and the request.
pub fn bare(mut text: &str) -> &str {
    loop {
        let rest = match text.split_once(" error: ") {
            Some((kind, rest)) if kind.starts_with("Generic ") || kind == "HTTP" => rest,
            _ => match text.split_once(" - ") {
                Some((request, rest)) if request.starts_with("Error performing ") => rest,
                _ => return text,
            },
        };
        text = rest;
    }
}

/// Describes a failure of the connection to a store.
pub fn unconnected(
    path: &str,
    broken: &object_store::client::HttpError,
    error: &object_store::Error,
) -> Error {
    let text = chain(error);
    let url = text.split_whitespace().find_map(|word| Url::parse(word).ok().filter(Url::has_host));
    let cause = connector::transport(broken).filter(|_| broken.kind() != HttpErrorKind::Timeout);
    if let (Some(url), Some(cause)) = (url, cause) {
        return match errors::of_transport(path, &url, cause, Duration::ZERO) {
            Failure::Final(error) | Failure::Passing(Passing { error, .. }) => error,
        };
    }
    let message = match broken.kind() {
        HttpErrorKind::Connect => "no connection to the store",
        HttpErrorKind::Timeout => {
            return errors::about(path, "the store sent nothing in time")
                .hint(errors::TIMEOUT.0, errors::TIMEOUT.1);
        }
        _ => "the connection to the store was interrupted",
    };
    errors::about(path, message)
}

/// Removes the queries of URLs from a text, because they may be signatures.
pub fn scrubbed(text: &str) -> String {
    let mut words = text.split_inclusive(char::is_whitespace).map(|word| match word.split_once('?') {
        Some((url, _)) if url.contains("://") => format!("{url}?… "),
        _ => word.to_owned(),
    });
    let text: String = words.by_ref().collect();
    short(&text, 400).into_owned()
}

/// Converts a store's error for a read into a failure, which may be transient.
pub fn failed(path: &str, error: &object_store::Error) -> Failure {
    let passing = |after, unconnected| Passing { error: failure(path, error), after, unconnected };
    match (connector::problem(error), connector::broken(error)) {
        (Some(problem), _) if problem.passes => Failure::Passing(passing(problem.after, problem.is_absent)),
        (None, Some(broken)) => Failure::Passing(passing(None, broken.kind() == HttpErrorKind::Connect)),
        _ => Failure::Final(failure(path, error)),
    }
}

/// Describes a store's error without secrets.
pub fn failure(path: &str, error: &object_store::Error) -> Error {
    use object_store::Error as Store;
    if let Some(problem) = connector::problem(error).filter(|problem| !problem.is_absent) {
        return problem.hinted(errors::about(path, &*problem.message)).answered(problem.status);
    }
    if let Some(broken) = connector::broken(error).filter(|_| status(error).is_none())
        && !chain(error).contains(METADATA)
    {
        return unconnected(path, broken, error);
    }
    let message = match error {
        Store::NotFound { .. } => "there is no such object, or no such bucket: check the name".to_owned(),
        Store::Precondition { .. } | Store::NotModified { .. } => return errors::changed(path),
        denied if denies(denied) => {
            "the store denies access: check the credentials, and that they may read the object".to_owned()
        }
        other => {
            let text = chain(other);
            // Without other credentials, the machine's metadata service is asked.
            if text.contains(METADATA) {
                return errors::about(path, NO_CREDENTIALS)
                    .hint("remote.store.anonymous", ANONYMOUS)
                    .answered(status(error));
            } else if let Some(detail) = connector::detail(&text) {
                let status = status(error).map(|status| format!(" {status}")).unwrap_or_default();
                format!("the store answered{status}: {}", scrubbed(&detail))
            } else if let Some(status) = status(error) {
                format!("the store answered {status}")
            } else {
                format!("the store failed: {}", scrubbed(bare(&text)))
            }
        }
    };
    errors::about(path, message).answered(status(error))
}

/// The address of the metadata service of a machine.
const METADATA: &str = "169.254.169.254";

/// Returns whether a store denies access. The end of an upload reports the status only as text.
pub fn denies(error: &object_store::Error) -> bool {
    matches!(status(error), Some(401 | 403))
}

/// Returns the status of a store's response. Its client reports it as an error variant or as text.
pub fn status(error: &object_store::Error) -> Option<u16> {
    use object_store::Error as Store;
    if let Some(problem) = connector::problem(error) {
        return problem.status;
    }
    match error {
        Store::Unauthenticated { .. } => Some(401),
        Store::PermissionDenied { .. } => Some(403),
        Store::NotFound { .. } => Some(404),
        other => {
            let text = chain(other);
            let (_, behind) = text.split_once("status code: ")?;
            behind.get(..3)?.parse().ok().filter(|status| (100..600).contains(status))
        }
    }
}

/// Joins the messages of an error and its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_messages_of_clients_are_not_shown() {
        for (text, reason) in [
            (
                "Generic S3 error: Error performing GET http://h/k in 5ms - HTTP error: sent nothing",
                "sent nothing",
            ),
            ("Generic GCS error: no key", "no key"),
            ("no key - or so", "no key - or so"),
        ] {
            assert_eq!(bare(text), reason);
        }
    }

    #[test]
    fn queries_of_urls_are_not_shown() {
        let text = "GET https://a.blob/x?sig=SECRET failed: what? because";
        assert_eq!(scrubbed(text), "GET https://a.blob/x?… failed: what? because");
    }
}
