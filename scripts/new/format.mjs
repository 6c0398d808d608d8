// A new format: a small one that opens and passes its tests, with everything that a format needs.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { RESERVED } from './reserved.mjs'

const MAGIC_BYTES = 8
/** Values of the example: enough bytes to damage. */
const VALUES = 100
const magicOf = (name) => name.toUpperCase().slice(0, MAGIC_BYTES).padEnd(MAGIC_BYTES, '_')

const parser = ({ name, title, magic }) => `//! ${title} files: a magic, a count and that many float32 values.
#![forbid(unsafe_code)]

use ztensor_core::checked;
use ztensor_core::error::{Code, Error, Result};
use ztensor_core::formats::{Confidence, Format, Input, Probe, bad_magic};
use ztensor_core::layouts;
use ztensor_core::model::{Builder, Catalog, Component, Container, DType, Label, Layout, NewTensor};

const NAME: &str = "${name}";
const MISSING: &str = "no ${title} magic";
const MAGIC: &[u8; ${MAGIC_BYTES}] = b"${magic}";
/// The magic and the count.
const HEADER_BYTES: u64 = ${MAGIC_BYTES + 4};

/// The format is only read: \`writes\` takes a \`WriteFormat\` for each version that is written.
pub const FORMAT: Format =
    Format { name: NAME, title: "${title}", endings: &[NAME], missing: MISSING, detect, parse, writes: &[], header: None };

fn detect(probe: &Probe<'_>) -> Result<Confidence> {
    Ok(if probe.first(${MAGIC_BYTES})? == MAGIC { Confidence::Certain } else { Confidence::No })
}

/// Reads the header. The error of a damaged file names the offset and the rule.
fn parse(input: &Input<'_>) -> Result<Catalog> {
    let total = input.length();
    let header = input.read_vec(0, total.min(HEADER_BYTES))?;
    let Some(count) = header.strip_prefix(MAGIC) else { return Err(bad_magic(MISSING)) };
    let Ok(count) = <[u8; 4]>::try_from(count) else {
        return Err(Error::new(Code::Truncated, "the file ends within its header").at(total).rule("${title} header"));
    };
    let count = u64::from(u32::from_le_bytes(count));
    let wanted = count.checked_mul(4).and_then(|bytes| checked::end_within(HEADER_BYTES, bytes, total));
    let Some(end) = wanted else {
        let message = format!("{count} values do not fit into the {total} bytes of the file");
        return Err(Error::new(Code::Truncated, message).at(MAGIC.len() as u64).rule("${title} header"));
    };
    if end != total {
        let message = format!("{} bytes follow the values", total - end);
        return Err(Error::new(Code::BadIndex, message).at(end).rule("${title} header"));
    }
    let mut builder = Builder::new(Container::named(NAME), input.limits);
    let dtype = Some(DType::Float32);
    let components = vec![Component::raw(Label::DATA, dtype, HEADER_BYTES, end - HEADER_BYTES)];
    let shape = &[count];
    let mut tensor =
        NewTensor { name: "data", shape, layout: Layout::Dense, dtype, components, attributes: None };
    layouts::check(&mut tensor)?;
    builder.add_tensor(tensor)?;
    Ok(builder.finish())
}
`

const cases = ({ name, title, magic }) => `// Malformed and odd ${title} files.
const file = (count, ...values) => {
  const header = Buffer.alloc(${MAGIC_BYTES + 4})
  header.write('${magic}')
  header.writeUInt32LE(count, ${MAGIC_BYTES})
  return Buffer.concat([header, Buffer.from(Float32Array.from(values).buffer)])
}
const opens = (name, bytes, values) => ({ name: \`valid: \${name}\`, bytes, names: ['data'], data: { data: values } })
const bad = (name, bytes, code) => ({ name, bytes, code, error: { offset: true, rule: true }, options: { format: '${name}' } })

export const cases = [
  opens('two values', file(2, 1, -2), [1, -2]),
  opens('no values', file(0), []),
  bad('the file ends within the header', file(1, 1).subarray(0, ${MAGIC_BYTES + 2}), 'ZT_TRUNCATED'),
  bad('the file ends within the values', file(2, 1, 2).subarray(0, ${MAGIC_BYTES + 4 + 6}), 'ZT_TRUNCATED'),
  bad('the count is beyond the file', file(2 ** 32 - 1, 1), 'ZT_TRUNCATED'),
  bad('a byte follows the values', Buffer.concat([file(1, 1), Buffer.from([0])]), 'ZT_BAD_INDEX'),
]
`

const reads = ({ name, title }) => `// ${title} files by their real writer have the values that it wrote.
import test from 'ava'
import { openSync } from 'ztensor'
import { fixturePath } from '../helpers/vectors.mjs'

test('${title} tensors have their names, shapes and values', (t) => {
  const file = openSync(fixturePath('${name}/small.${name}'))
  t.is(file.format, '${name}')
  t.deepEqual([...file.keys()], ['data'])
  t.deepEqual(file.get('data').shape, [${VALUES}])
  t.deepEqual(file.get('data').data, Float32Array.from({ length: ${VALUES} }, (_, at) => at))
  file.close()
})
`

const target = ({ name, title }) => `//! ${title} files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ztensor_fuzz::ALL;

fuzz_target!(|file: &[u8]| ztensor_fuzz::read(file, ALL.only("${name}").unwrap()));
`

/** The page of the format. */
const page = ({ title }) => `# ${title}

Which versions and dtypes are read, what is not read, and how tensors get their names.
`

function sample({ magic }) {
  const header = Buffer.alloc(MAGIC_BYTES + 4)
  header.write(magic)
  header.writeUInt32LE(VALUES, MAGIC_BYTES)
  return Buffer.concat([header, Buffer.from(Float32Array.from({ length: VALUES }, (_, at) => at).buffer)])
}

/** The new files, by path. */
const created = (format) => ({
  [`crates/import/src/${format.name}.rs`]: parser(format),
  [`__test__/corpus/cases-${format.name}.mjs`]: cases(format),
  [`__test__/formats/${format.name}.test.mjs`]: reads(format),
  [`__test__/fixtures/${format.name}/small.${format.name}`]: sample(format),
  [`fuzz/fuzz_targets/${format.name}.rs`]: target(format),
  [`docs/formats/${format.name}.md`]: page(format),
})

/** The changes: path, pattern, replacement. */
const changed = ({ name, title }) => [
  ['crates/import/src/lib.rs', /^pub mod zip;$/m, (line) => `pub mod ${name};\n${line}`],
  ['crates/import/src/lib.rs', /(pub const IMPORT: [^;]*?)\n\];/, (_, rows) => `${rows}\n    ${name}::FORMAT,\n];`],
  [
    '__test__/helpers/mutated-files.mjs',
    /(export const MUTATED = \{[\s\S]*?)\n\}/,
    (_, rows) => `${rows}\n  ${name}: each('${name}', '.${name}', 'small'),\n}`,
  ],
  [
    'fuzz/Cargo.toml',
    /$(?![\s\S])/,
    () => `\n[[bin]]\nname = "${name}"\npath = "fuzz_targets/${name}.rs"\ntest = false\ndoc = false\nbench = false\n`,
  ],
  ['fuzz/seeds.mjs', /const WHOLE = \[(.*)\]/, (_, names) => `const WHOLE = [${names}, '${name}']`],
  ['.github/workflows/campaigns.yml', /(\[arrow, btf,[^\]]*)\]/, (_, names) => `${names}, ${name}]`],
  [
    'docs/formats.md',
    /\n\nData that is stored raw/,
    (text) => `\n| [${title}](formats/${name}.md) \`.${name}\` | yes | | |${text}`,
  ],
  ['README.md', /^\| frameworks \| (.*) \|$/m, (_, names) => `| frameworks | ${names}, ${title} |`],
  ['package.json', /("description": "[^"]*?), NumPy and BTF/, (_, text) => `${text}, ${title}, NumPy and BTF`],
  ['package.json', /^ {4}"numpy",$/m, (line) => `    "${title.split(' ')[0].toLowerCase()}",\n${line}`],
]

/** The files that a format named `name` creates and changes in the repository at `root`. Throws if the name cannot be used. */
export function format(root, name, title = name.replace(/^./, (first) => first.toUpperCase())) {
  if (!/^[a-z][a-z0-9]{1,15}$/.test(name))
    throw new Error(`a format is named like "gguf": 2 to 16 lowercase letters and digits, got ${JSON.stringify(name)}`)
  if (RESERVED.has(name))
    throw new Error(`${name} cannot name a module: Rust reserves it. Choose another name, such as ${name}file`)
  if (!/^[a-z0-9][a-z0-9 .+-]*$/i.test(title))
    throw new Error(`a title is like "NumPy npy": letters, digits, spaces and . + -, got ${JSON.stringify(title)}`)
  const table = readFileSync(join(root, 'lib/values/format-table.ts'), 'utf8')
  const rows = table.matchAll(/name: '(\w+)'|endings: \[([^\]]*)\]/g)
  const taken = [...rows].flatMap(([, known, endings]) => known ?? endings.replaceAll("'", '').split(', '))
  if (taken.includes(name)) throw new Error(`${name} is the name or a file extension of an existing format`)
  const row = { name, title, magic: magicOf(name) }
  return { created: created(row), changed: changed(row), next: next(name) }
}

const next = (
  name,
) => `  npm run build && npm run formats && npm run types   # the addon, its table of formats, the public types
  npm test -- ${name} formats/reject formats/mutations formats-complete   # the tests of the format
  npm run format                                      # rustfmt and biome
Then replace the rules in crates/import/src/${name}.rs, the cases, the fixture and the text in docs/formats/${name}.md by those of the format.
To write it, add a WriteFormat to the row, and mark it as written in docs/formats.md, README.md and docs/guide/write.md: ARCHITECTURE.md, "A format".`
