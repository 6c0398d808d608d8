//! Identifies files that are not supported tensor files from their first and last 64 KiB: one table with a row for each kind. When a format
//! becomes supported, its row is removed.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::formats::Probe;
use crate::sources::ReadAt;
use crate::work::Stop;

/// The ends of a file. They overlap if the file is short.
struct Ends<'f> {
    first: &'f [u8],
    last: &'f [u8],
    length: u64,
}

impl Ends<'_> {
    fn starts(&self, magics: &[&[u8]]) -> bool {
        magics.iter().any(|magic| self.first.starts_with(magic))
    }

    fn has(&self, offset: usize, magic: &[u8]) -> bool {
        self.first.get(offset..).is_some_and(|rest| rest.starts_with(magic))
    }

    /// Returns whether a text occurs in either end.
    fn names(&self, text: &[u8]) -> bool {
        [self.first, self.last].iter().any(|end| end.windows(text.len()).any(|window| window == text))
    }

    /// Returns whether the file begins with one of `words`, case-insensitively, after white space.
    fn opens_with(&self, words: &[&str]) -> bool {
        let start = self.first.trim_ascii_start();
        words.iter().any(|word| {
            start.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
        })
    }

    fn is_zip(&self) -> bool {
        self.starts(&[b"PK\x03\x04", b"PK\x05\x06"])
    }
}

/// A kind of file.
struct Foreign {
    /// What it is, as the end of "this is".
    is: &'static str,
    /// What to do, as a sentence.
    help: &'static str,
    detect: fn(&Ends<'_>) -> bool,
}

/// The kinds; the first match is used.
const FOREIGN: &[Foreign] = &[
    Foreign {
        is: "an image",
        help: "Specify the file with the tensors",
        detect: |ends| {
            let is_webp = ends.starts(&[b"RIFF"]) && ends.has(8, b"WEBP");
            ends.starts(&[b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a"]) || is_webp
        },
    },
    Foreign {
        is: "a PDF document",
        help: "Specify the file with the tensors",
        detect: |ends| ends.starts(&[b"%PDF-"]),
    },
    Foreign {
        is: "a program or library",
        help: "Specify the file with the tensors",
        detect: |ends| ends.starts(&[b"\x7fELF", b"MZ\x90\0", b"\xcf\xfa\xed\xfe"]),
    },
    Foreign {
        is: "a git-lfs pointer, not the file itself",
        help: "Run `git lfs pull` in the repository",
        detect: |ends| ends.starts(&[b"version https://git-lfs.github.com/spec/"]),
    },
    Foreign {
        is: "a response of the Hugging Face hub that was saved as the file",
        help: "Check the name, the revision and your access, and download it again",
        detect: |ends| {
            ends.length < 1024
                && ends.opens_with(&[
                    "Entry not found",
                    "Repository not found",
                    "Invalid username or password",
                    "Access to model",
                ])
        },
    },
    Foreign {
        is: "a web page (HTML)",
        help: "The server answered with a page, perhaps an error or a login: download the file itself, on the Hugging Face hub \
               from …/resolve/… instead of …/blob/…",
        detect: |ends| ends.opens_with(&["<!doctype html", "<html"]),
    },
    Foreign {
        is: "an XML file, as object stores send for errors",
        help: "It states the reason; download the file again",
        detect: |ends| ends.opens_with(&["<?xml", "<Error>"]),
    },
    Foreign {
        is: "a layers model of TensorFlow.js",
        help: "Convert it with Python: tensorflowjs_converter --input_format=tfjs_layers_model --output_format=keras model.json model.h5",
        detect: |ends| is_tensorflow_js(ends) && ends.names(b"layers-model"),
    },
    Foreign {
        is: "a graph model of TensorFlow.js",
        help: "Convert it with Python: tfjs_graph_converter --output_format tf_saved_model FOLDER NEW_FOLDER",
        detect: is_tensorflow_js,
    },
    Foreign {
        is: "a model in ONNX Runtime's own format (.ort)",
        help: "Open the .onnx file that it was made from",
        detect: |ends| ends.has(4, b"ORTM"),
    },
    Foreign {
        is: "a JSON error that a server sent",
        help: "It states the reason; download the file again",
        detect: |ends| {
            let keys: [&[u8]; 4] = [b"\"error\"", b"\"errors\"", b"\"detail\"", b"\"message\""];
            let is_short = ends.opens_with(&["{"]) && ends.length <= 4096 && is_text(ends.first);
            is_short && keys.iter().any(|key| ends.names(key))
        },
    },
    Foreign {
        is: INDEX,
        help: "Give it a name that ends in .json to open the checkpoint",
        detect: |ends| ends.opens_with(&["{"]) && ends.names(b"\"weight_map\"") && is_text(ends.first),
    },
    Foreign {
        is: "compressed with gzip",
        help: "Decompress it first: gunzip",
        detect: |ends| ends.starts(&[b"\x1f\x8b\x08"]),
    },
    Foreign {
        is: "compressed with zstd",
        help: "Decompress it first: unzstd",
        detect: |ends| ends.starts(&[b"\x28\xb5\x2f\xfd"]),
    },
    Foreign {
        is: "compressed with xz",
        help: "Decompress it first: unxz",
        detect: |ends| ends.starts(&[b"\xfd7zXZ\0"]),
    },
    Foreign {
        is: "compressed with bzip2",
        help: "Decompress it first: bunzip2",
        detect: |ends| ends.starts(&[b"BZh"]) && ends.has(4, b"1AY&SY"),
    },
    Foreign {
        is: "a checkpoint of PyTorch from before 0.1.10 (a tar archive)",
        help: "Load it with torch.load(path, weights_only=False), only if you trust where it comes from, and save it again",
        detect: |ends| {
            let firsts: [&[u8]; 4] = [b"sys_info\0", b"pickle\0", b"tensors\0", b"storages\0"];
            ends.has(257, b"ustar") && ends.starts(&firsts)
        },
    },
    Foreign { is: "a tar archive", help: "Unpack it first: tar -xf", detect: |ends| ends.has(257, b"ustar") },
    Foreign {
        is: "a program of torch.export (.pt2)",
        help: "Save its weights with Python: torch.save(torch.export.load(path).state_dict, 'weights.pt')",
        detect: |ends| {
            let members: [&[u8]; 2] = [b"/archive_format", b"serialized_exported_program.json"];
            ends.is_zip() && members.iter().any(|member| ends.names(member))
        },
    },
    Foreign {
        is: "a zip archive",
        help: "Unpack it first: unzip",
        // Invalid archives of supported formats report their own errors.
        detect: |ends| ends.is_zip() && !ends.names(b".npy") && !ends.names(b"data.pkl"),
    },
    Foreign {
        is: "a file of llama.cpp from before GGUF",
        help: "Use the safetensors files of the model instead",
        detect: |ends| ends.starts(&[b"lmgg", b"fmgg", b"tjgg"]),
    },
    Foreign { is: "a Parquet file", help: TABLES, detect: |ends| ends.starts(&[b"PAR1"]) },
    Foreign {
        is: "a pickle of Python",
        help: "Load it with Python, only if you trust where it comes from, and save its tensors as safetensors",
        detect: |ends| {
            // From protocol 4 on frames follow; earlier ones continue with an instruction, which is never zero.
            let begins = match ends.first {
                [0x80, 2..=3, first, ..] => *first != 0,
                [0x80, 4..=5, first, ..] => *first == 0x95,
                _ => false,
            };
            begins && ends.last.ends_with(b".")
        },
    },
    Foreign {
        is: "all zeros, at its beginning and its end",
        help: "A download or copy may be incomplete: fetch the file again",
        detect: |ends| ends.first.iter().chain(ends.last).all(|byte| *byte == 0),
    },
    Foreign {
        is: "a JSON file",
        help: "Specify the file with the tensors",
        detect: |ends| ends.opens_with(&["{", "["]) && is_text(ends.first) && is_text(ends.last),
    },
    Foreign {
        is: "a text file",
        help: "Specify the file with the tensors",
        detect: |ends| is_text(ends.first) && is_text(ends.last),
    },
];

const TABLES: &str = "It holds a table: save its columns as tensors with Python: safetensors.numpy.save_file";

const INDEX: &str = "the index of a sharded checkpoint";

fn is_tensorflow_js(ends: &Ends<'_>) -> bool {
    ends.opens_with(&["{"]) && ends.names(b"\"weightsManifest\"")
}

const DISTRIBUTED: &str = "Convert it with Python: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt";
const CORE_ML: &str = "Open the model that it was converted from: Core ML models cannot be converted back";
const ORBAX: &str = "Restore it with Python: orbax.checkpoint.PyTreeCheckpointer().restore(FOLDER), and save its arrays with safetensors.flax.save_file";

/// Describes a folder that another tool wrote as one checkpoint, by the names in it; `None` for any other folder.
pub fn describe_folder(names: &[String]) -> Option<String> {
    let has = |wanted: &str| names.binary_search_by(|name| name.as_str().cmp(wanted)).is_ok();
    let ends = |ending: &str| names.iter().any(|name| name.ends_with(ending));
    let (is, help) = if has(".metadata") && ends(".distcp") {
        ("a distributed checkpoint of PyTorch", DISTRIBUTED)
    } else if has("_CHECKPOINT_METADATA") || (has("_METADATA") && (has("manifest.ocdbt") || has("d"))) {
        ("a checkpoint of Orbax (JAX)", ORBAX)
    } else if has("Manifest.json") && has("Data") {
        ("a Core ML package (.mlpackage)", CORE_ML)
    } else if has("zero_to_fp32.py") {
        ("a checkpoint of DeepSpeed", "Run in it: python zero_to_fp32.py . OUTPUT")
    } else {
        return None;
    };
    Some(format!("this is {is}. {help}"))
}

/// Describes a file of a format that its bytes do not identify, by its name.
pub fn describe_name(name: &str) -> Option<String> {
    let (stem, ending) = name.rsplit_once('.')?;
    let (is, help) = match ending {
        "distcp" => ("one file of a distributed checkpoint of PyTorch", DISTRIBUTED),
        "mlmodel" => ("a Core ML model", CORE_ML),
        "bin" if is_numbered_group(stem) => (
            "one file of a TensorFlow.js model",
            "Convert the model with Python, by its model.json: tensorflowjs_converter",
        ),
        _ => return None,
    };
    Some(format!("this is {is}. {help}"))
}

/// Returns whether a name is that of weights of TensorFlow.js: `group1-shard1of3`.
fn is_numbered_group(stem: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = stem.strip_prefix("group").and_then(|rest| rest.split_once("-shard"));
    parts.is_some_and(|(group, shard)| {
        is_number(group)
            && shard.split_once("of").is_some_and(|(at, total)| is_number(at) && is_number(total))
    })
}

/// Returns what a file is and what to do about it, in sentences; `None` for an unknown kind.
pub fn describe(probe: &Probe<'_>) -> Result<Option<String>> {
    let ends =
        Ends { first: probe.first(Probe::BYTES)?, last: probe.last(Probe::BYTES)?, length: probe.length() };
    let kind = FOREIGN.iter().find(|kind| (kind.detect)(&ends));
    Ok(kind.map(|kind| format!("this is {}. {}", kind.is, kind.help)))
}

/// Describes bytes that should be the index of a sharded checkpoint; `None` if they are one.
pub fn describe_no_index(bytes: &[u8]) -> Option<String> {
    describe(&Probe::new(&bytes, &Stop::default())).ok().flatten().filter(|text| !text.contains(INDEX))
}

/// Returns whether bytes are UTF-8 without control characters that do not occur in text. A character may be truncated at either end.
fn is_text(bytes: &[u8]) -> bool {
    let start = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let bytes = bytes.get(start..).unwrap_or_default();
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let controls = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x1b);
    whole && !bytes.is_empty() && !bytes.iter().any(controls)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(bytes: &[u8]) -> Option<String> {
        describe(&Probe::new(&bytes, &Stop::default())).unwrap()
    }

    #[test]
    fn arbitrary_files_are_identified_without_a_panic() {
        for kind in [
            &b"PK\x03\x04"[..],
            b"\x80\x02",
            b"\x08\x08",
            b"{\"error\"",
            b"<html",
            b"BZh",
            b"\x08\xff\xff\xff\xff",
        ] {
            for length in 0..40 {
                for fill in [0, b'.', 0xff, b' '] {
                    let mut bytes = kind.to_vec();
                    bytes.resize(length, fill);
                    described(&bytes);
                }
            }
        }
        assert_eq!(described(&[0xfe; 100]), None);
    }

    #[test]
    fn checkpoints_of_other_tools_are_named() {
        for (names, says) in [
            (&[".metadata", "__0_0.distcp", "common.pt"][..], "a distributed checkpoint of PyTorch"),
            (&["_CHECKPOINT_METADATA", "default"], "a checkpoint of Orbax"),
            (&["_METADATA", "d", "manifest.ocdbt"], "a checkpoint of Orbax"),
            (&["Data", "Manifest.json"], "a Core ML package"),
            (&["global_step1", "latest", "zero_to_fp32.py"], "a checkpoint of DeepSpeed"),
        ] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let text = describe_folder(&names).unwrap();
            assert!(text.contains(says), "{text}");
        }
        for names in [&[".metadata", "a.pt"][..], &["Manifest.json"], &["d"], &["_METADATA", "a.pt"], &[]] {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(describe_folder(&names), None, "{names:?}");
        }
        for name in ["__0_0.distcp", "a.mlmodel", "group1-shard2of3.bin"] {
            assert!(describe_name(name).is_some(), "{name}");
        }
        for name in ["group-shard1of1.bin", "group1-shard1.bin", "model.bin", "distcp"] {
            assert_eq!(describe_name(name), None, "{name}");
        }
        let model = br#"{"format": "layers-model", "weightsManifest": []}"#;
        assert!(described(model).unwrap().contains("a layers model of TensorFlow.js"));
        assert!(described(br#"{"weightsManifest": []}"#).unwrap().contains("a graph model"));
        assert!(described(b"\x18\0\0\0ORTM\0\0").unwrap().contains(".ort"));
    }

    #[test]
    fn a_text_can_be_truncated_inside_a_character() {
        let text = "ä".repeat(70_000);
        assert!(described(text.as_bytes()).unwrap().contains("a text"));
        assert!(described(&text.as_bytes()[1..]).unwrap().contains("a text"));
        assert_eq!(described(b"no text \x01 at all"), None);
        assert_eq!(described(b"no text \xff\xfe at all"), None);
    }
}
