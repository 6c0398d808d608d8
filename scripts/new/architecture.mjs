// A new architecture of models that become GGUF: a decoder with the tensors and parameters of most decoders of text.
import { RESERVED } from './reserved.mjs'

const module = ({ name, title, architecture }) => `//! ${title}.
#![forbid(unsafe_code)]

use ztensor_core::error::Result;

use super::config::Assumed::{HeadSize, Number, Same};
use super::config::Defaults;
use super::decoder::{
    ATTENTION, COMPUTED, EDGES, FEED_FORWARD, FEED_FORWARD_NORM, HEAD_SIZES, MEDIA, MORE_PARAMETERS, PARAMETERS,
};
use super::plan::{Architecture, Model};
use super::rope::THETA;
use super::row::Row;

const TENSORS: &[&[Row]] = &[EDGES, ATTENTION, FEED_FORWARD_NORM, FEED_FORWARD];

/// What transformers assumes where the configuration says nothing.
const DEFAULTS: Defaults = &[
    ("max_position_embeddings", Number(2048.0)),
    ("num_key_value_heads", Same("num_attention_heads")),
    ("rms_norm_eps", Number(1e-6)),
    ("head_dim", HeadSize),
    THETA,
];

pub const ARCHITECTURES: &[Architecture] = &[Architecture {
    classes: &["${architecture}"],
    name: "${name}",
    defaults: DEFAULTS,
    parameters: &[PARAMETERS, MORE_PARAMETERS, HEAD_SIZES],
    tensors: TENSORS,
    left_out: &[COMPUTED, MEDIA],
    derived,
    tokenizer,
}];

fn derived(model: &mut Model<'_>) -> Result<()> {
    let tokens = model.config.needed(&["vocab_size"])?;
    model.metadata.own("vocab_size", tokens);
    Ok(())
}

fn tokenizer(model: &mut Model<'_>) -> Result<()> {
    if model.sentence_pieces()? { Ok(()) } else { model.byte_pairs() }
}
`

/** The files that an architecture creates and changes: `olmo OlmoForCausalLM`. Throws if a name cannot be used. */
export function architecture(_root, name, className = '') {
  if (!/^[a-z][a-z0-9_]{1,23}$/.test(name) || RESERVED.has(name))
    throw new Error(`an architecture is named as in llama.cpp, like "olmo2", got ${JSON.stringify(name)}`)
  if (!/^[A-Z]\w+$/.test(className))
    throw new Error(
      `the second name is that of "architectures" in config.json, like Olmo2ForCausalLM, got ${JSON.stringify(className)}`,
    )
  const title = className.replace(/For[A-Z]\w*$/, '')
  return {
    created: { [`crates/gguf/src/checkpoint/${name}.rs`]: module({ name, title, architecture: className }) },
    changed: [
      ['crates/gguf/src/checkpoint.rs', /^mod bert;$/m, (line) => `mod ${name};\n${line}`],
      [
        'crates/gguf/src/checkpoint.rs',
        /^ {4}bert::ARCHITECTURES,$/m,
        (line) => `${line}\n    ${name}::ARCHITECTURES,`,
      ],
      ['docs/guide/gguf.md', /^\| embeddings \| .*$/m, (line) => `| ${title} | \`${className}\` |\n${line}`],
      [
        'interop/checkpoints.py',
        /^CHECKPOINTS = \[\n/m,
        (line) => `${line}    ("${name}", llama2_tokenizer, None, transformer("${name}", **SMALL, vocab_size=366)),\n`,
      ],
    ],
    next: `  npm run format                                  # rustfmt
  python interop/checkpoints.py fixtures …         # what the reference makes of a tiny checkpoint (its first lines say how)
  cargo test -p ztensor-gguf                       # our plan against it
  npm run interop                                  # the whole files, and llama.cpp decodes a token
Then replace the tensors, the parameters and the tokenizer in crates/gguf/src/checkpoint/${name}.rs by those of the reference.`,
  }
}
