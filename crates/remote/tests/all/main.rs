//! All integration tests of the crate in one program, since each program links the whole crate.
#![allow(clippy::unwrap_used)] // a test that cannot set itself up has failed

mod chaos;
mod hostile;
mod hub;
mod ranges;
mod redirects;
mod retries;
mod server;
mod sets;
mod tls;
