//! What the tests of writing share.

use ztensor_core::formats::WriteFormat;
use ztensor_core::model::Attributes;
use ztensor_core::work::Stop;
use ztensor_core::write::Settings;

/// A file without digests, compression or attributes, over one that may be there.
pub fn settings(format: &'static WriteFormat) -> Settings {
    Settings {
        format,
        alignment: if format == WriteFormat::ZT2 { 4096 } else { 64 },
        digest: None,
        compression: None,
        overwrite: true,
        canonical: false,
        max_shard: None,
        attributes: Attributes::default(),
        generator: None,
        stop: Stop::default(),
    }
}
