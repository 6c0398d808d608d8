//! Files being written, and changes to existing files.

pub mod edit;
pub mod packet;
pub mod sparse;
pub mod whole;
pub mod writer;
