//! The sections of the specification (Draft 4) that errors refer to.
#![forbid(unsafe_code)]

pub const FILE: &str = "zTensor 2 §2.1 File structure";
pub const MAGIC: &str = "zTensor 2 §2.2 Magic";
pub const FOOTER: &str = "zTensor 2 §2.3 Footer";
pub const BLOBS: &str = "zTensor 2 §2.4 Blobs and alignment";
pub const ENCODING: &str = "zTensor 2 §3.1 Encoding";
pub const ROOT: &str = "zTensor 2 §3.2 Root schema";
pub const OBJECT: &str = "zTensor 2 §3.3 Object";
pub const PART: &str = "zTensor 2 §3.4 Part";
pub const NAMES: &str = "zTensor 2 §3.5 Names";
pub const STORAGE_TYPES: &str = "zTensor 2 §4.1 Storage types";
pub const LOGICAL_TYPES: &str = "zTensor 2 §4.2 Logical types";
pub const DENSE: &str = "zTensor 2 §5.1 Core layout: dense";
pub const LAYOUTS: &str = "zTensor 2 §5.2 Layout profiles";
pub const SHARD_TABLE: &str = "zTensor 2 §7.1 Shard table";
pub const DATA_SHARDS: &str = "zTensor 2 §7.2 Data shards";
pub const CANONICAL: &str = "zTensor 2 §6.3 Canonical form";
pub const CONTENT: &str = "zTensor 2 §6.4 Content digest";
