//! Limits on the work that a GGUF file, or a checkpoint that becomes one, may cause, in addition to those of `ztensor_core::limits`.
#![forbid(unsafe_code)]

/// Maximum bytes before the tensors of a GGUF file, unless set by an option. A vocabulary of 256,000 tokens with its merges takes 15 MB.
pub const GGUF_INDEX_BYTES: u64 = 256 << 20;
/// Maximum bytes of a JSON file of a checkpoint that becomes GGUF. `tokenizer.json` of 262,144 tokens has 33 MB.
pub const CHECKPOINT_JSON_BYTES: u64 = 128 << 20;
/// Maximum values in one. A vocabulary of 262,144 tokens with 514,906 merges takes 2.1 million.
pub const CHECKPOINT_JSON_VALUES: u32 = 8 << 20;
/// Maximum bytes of `tokenizer.model` and of text files such as `merges.txt`. That of Gemma has 4 MB.
pub const CHECKPOINT_TEXT_BYTES: u64 = 64 << 20;
/// Maximum tokens of a vocabulary: four times those of the largest known.
pub const CHECKPOINT_TOKENS: u32 = 1 << 20;
/// Maximum pairs that a tokenizer joins: four times those of the largest known. Each takes some 100 bytes, and may take three of the file.
pub const CHECKPOINT_MERGES: usize = 2 << 20;
/// Maximum layers of a model.
pub const CHECKPOINT_LAYERS: u32 = 1 << 16;
