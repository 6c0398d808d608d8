//! The Node addon: it passes the core's results to JavaScript and knows no format. All exports are private to the TypeScript wrapper, which
//! checks arguments and builds the public objects.

// Arguments have the types that the binding generator produces: owned, and the environment by reference.
#![allow(clippy::needless_pass_by_value, clippy::trivially_copy_pass_by_ref)]

mod convert;
mod js;
mod read;
mod values;
mod write;
