//! Pagination of lists, which a server may continue endlessly.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use ztensor_core::codecs::digest::xxh3;
use ztensor_core::error::{Code, Error, Result};

use crate::errors;
use crate::options::Options;

/// The pages of one list.
pub struct Pages<'p> {
    /// Who sends them, for messages.
    who: &'static str,
    path: &'p str,
    /// Maximum pages, and maximum consecutive pages without new entries.
    max: usize,
    max_empty: usize,
    /// How long consecutive pages may lack new entries: as long as failing requests are retried.
    patience: Duration,
    seen: HashSet<u64>,
    empty: usize,
    /// When the last page with new entries arrived.
    since: Instant,
}

impl<'p> Pages<'p> {
    pub fn new(
        who: &'static str,
        path: &'p str,
        options: &Options,
        (max, max_empty): (usize, usize),
    ) -> Self {
        let patience = options.timeout.saturating_mul(options.retries.saturating_add(1));
        Self { who, path, max, max_empty, patience, seen: HashSet::new(), empty: 0, since: Instant::now() }
    }

    /// Continues with the page that `token` names. `grew`: whether the previous page had new entries.
    pub fn next(&mut self, token: &str, grew: bool) -> Result<()> {
        let Self { who, path, max, .. } = *self;
        // A hash takes little memory; the server chooses the tokens.
        if !self.seen.insert(xxh3(token.as_bytes())) {
            return Err(errors::about(path, format!("{who} repeatedly lists the same page")));
        }
        if grew {
            (self.empty, self.since) = (0, Instant::now());
        } else {
            self.empty += 1;
        }
        let empty = self.empty;
        if empty >= self.max_empty || (empty > 0 && self.since.elapsed() > self.patience) {
            let message =
                format!("{who} sends an endless list of pages, the last {empty} of them without new entries");
            return Err(errors::about(path, message));
        }
        if self.seen.len() >= max {
            let message = format!(
                "the list of the folder has more than {max} pages, the maximum that is read: specify a file in it"
            );
            return Err(Error::new(Code::Limit, message).file(Path::new(path)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(options: &Options) -> Pages<'static> {
        Pages::new("the store", "s3://b/f", options, (6, 3))
    }

    #[test]
    fn a_list_ends_at_the_maximum_number_of_pages() {
        let options = Options::default();
        let mut list = pages(&options);
        for page in 1..6 {
            list.next(&page.to_string(), true).unwrap();
        }
        assert_eq!(list.next("6", true).unwrap_err().code(), Code::Limit);
    }

    #[test]
    fn repeated_pages_and_too_many_empty_pages_are_errors() {
        let options = Options::default();
        let mut list = pages(&options);
        for (token, grew) in [("a", false), ("b", false), ("c", true), ("d", false), ("e", false)] {
            list.next(token, grew).unwrap();
        }
        let says = |result: Result<()>| result.unwrap_err().message().to_owned();
        assert!(says(list.next("d", true)).ends_with("the store repeatedly lists the same page"));
        assert!(says(list.next("f", false)).contains("endless list of pages, the last 3 of them"));
    }
}
