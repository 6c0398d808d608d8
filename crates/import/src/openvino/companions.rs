//! The `.bin` sibling file of a model, which is not opened by itself.
#![forbid(unsafe_code)]

use ztensor_core::formats::Companions;

use super::tensors::DATA;
use super::{MODEL, NAME};

/// Many formats have files that end in `.bin`: one is model data only if the model is in the same folder.
pub const COMPANIONS: Companions = Companions { format: NAME, markers: &[], index_of, in_pairs: true };

fn index_of(name: &str) -> Option<String> {
    let (stem, ending) = name.rsplit_once('.')?;
    (ending == DATA && !stem.is_empty()).then(|| format!("{stem}.{MODEL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_file_names_its_model() {
        assert_eq!(index_of("a.b.bin").as_deref(), Some("a.b.xml"));
        for name in ["a.xml", ".bin", "bin", "a.bin.index"] {
            assert_eq!(index_of(name), None, "{name}");
        }
    }
}
