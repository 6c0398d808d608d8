// A new call of tensors, from the inside out: as a start it counts the bytes that are zero, piece by piece, on a thread of the pool.
import { RESERVED } from './reserved.mjs'

const work = (name) => `//! What \`${name}\` computes.
#![forbid(unsafe_code)]

use crate::error::Result;
use crate::inject;
use crate::model::Tensor;
use crate::read::Reading;
use crate::read::staging::stored_bytes;

impl Reading<'_> {
    /// Returns the number of bytes of a tensor that are zero. Fails like every call that decodes its data.
    pub fn ${name}(&self, tensor: Tensor<'_>) -> Result<u64> {
        inject::panic_at("${name}");
        self.watch.expect(stored_bytes(tensor), 1);
        let mut zeros = 0_u64;
        for component in tensor.components() {
            self.pieces(tensor, component, |piece| {
                zeros += piece.iter().filter(|&&byte| byte == 0).count() as u64;
                Ok(())
            })
            .map_err(|error| error.tensor(tensor.name()))?;
        }
        self.watch.did_tensor();
        Ok(zeros)
    }
}
`

const binding = (name) => `//! The call \`${name}\` of tensors.

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;

use crate::js::control::Control;
use crate::js::task::spawn;
use crate::read::file::NativeFile;
use crate::read::stage::Stage;
use ztensor_handover::number;

#[napi]
impl NativeFile {
    #[napi(ts_return_type = "Promise<number>", catch_unwind)]
    pub fn ${name}<'env>(
        &self,
        env: &'env Env,
        ordinal: u32,
        control: &Control,
        stage: Option<&Stage>,
    ) -> Result<Object<'env>> {
        let source = self.reader(env, control, stage)?;
        let lane = source.shared.lane(&[ordinal]);
        let job = move || source.read(|reading| reading.${name}(source.shared.tensor(ordinal)?));
        spawn(env, lane, control, job, |_, found| Ok(number(found)))
    }
}
`

const wrapper = (name) => `import { type JobOptions, run } from '../native/job.js'
import { readOptions } from '../values/arguments.js'
import type { TensorRef } from './store.js'
import { jobOptions } from './verify.js'

/** Counts the bytes of a tensor that are zero. */
export async function ${name}({ store, ordinal }: TensorRef, options?: JobOptions): Promise<number> {
  const { onProgress, signal } = jobOptions(readOptions(options, ['onProgress', 'signal']))
  signal?.throwIfAborted()
  const work = async () => {
    const stage = await store.stage(ordinal, undefined, signal)
    return run(store, { onProgress, signal }, (control) => store.native.${name}(ordinal, control, stage))
  }
  return store.calls.during('${name}', store.calls.begin(ordinal, true), work())
}
`

const method = (name) => `  /**
   * Counts the bytes of the tensor that are zero, off the event loop.
   *
   * @throws ZTensorError ZT_CLOSED, ZT_DECODE, ZT_DIGEST_MISMATCH, ZT_UNSUPPORTED_ENCODING, ZT_LIMIT, ZT_IO, ZT_TRUNCATED; TypeError
   * ZT_INVALID_ARG; the signal's reason
   */
  ${name}(options?: JobOptions): Promise<number> {
    return ${name}({ store: this.#store, ordinal: this.#ordinal }, options)
  }

`

const test = (name) => `// \`tensor.${name}()\`.
import test from 'ava'
import { openSync } from 'ztensor'
import { written } from '../helpers/sample-files.mjs'

test('counts zero bytes, of plain and of compressed data', async (t) => {
  for (const options of [{ version: '1.2' }, { version: '1.2', compression: { level: 1, minSavings: 0 } }]) {
    const file = openSync(await written(options, (writer) => writer.add('x', Uint16Array.of(0, 1, 256, 257))))
    t.is(await file.tensor('x').${name}(), 4)
    file.close()
  }
})
`

/** Adds a line after the one that matches. */
const after = (path, pattern, added) => [path, pattern, (line) => `${line}\n${added}`]

/** The files that a call named `name` creates and changes. Throws if the name cannot be used. */
export function call(_root, name) {
  if (!/^[a-z][a-z0-9]{1,15}$/.test(name))
    throw new Error(`a call is named like "norms": 2 to 16 lowercase letters and digits, got ${JSON.stringify(name)}`)
  if (RESERVED.has(name)) throw new Error(`${name} cannot name a function: Rust reserves it`)
  const call = `.${name}(`
  return {
    created: {
      [`crates/core/src/analysis/${name}.rs`]: work(name),
      [`src/read/${name}.rs`]: binding(name),
      [`lib/read/${name}.ts`]: wrapper(name),
      [`__test__/analysis/${name}.test.mjs`]: test(name),
    },
    changed: [
      after('crates/core/src/analysis.rs', /^pub mod elements;$/m, `pub mod ${name};`),
      after('src/read.rs', /^pub mod index;$/m, `pub mod ${name};`),
      after('lib/read/tensor.ts', /^import \{ type StatsOptions, .*$/m, `import { ${name} } from './${name}.js'`),
      ['lib/read/tensor.ts', /^ {2}get \[Symbol\.toStringTag\]\(\): string \{$/m, (line) => `${method(name)}${line}`],
      ['lib/native/channels.ts', /'stats' \| 'compare'$/m, (line) => `${line} | '${name}'`],
      after(
        '__test__/calls/arguments-rest.test.mjs',
        /^ {2}\['file\.summary options', .*$/m,
        `  ['tensor.${name} options', ['options', ...KEYS], withFile((file, value) => file.tensor('w')${call}value))],`,
      ),
      after(
        '__test__/calls/signals.test.mjs',
        /^ {2}'tensor\.stats': .*$/m,
        `  'tensor.${name}': withFile((file, signal) => w(file)${call}{ signal })),`,
      ),
      after(
        '__test__/calls/progress.test.mjs',
        /^ {2}'tensor\.stats': .*$/m,
        `  'tensor.${name}': (onProgress) => openSync(path).tensor('a')${call}{ onProgress }),`,
      ),
      after(
        '__test__/memory/drain.test.mjs',
        /^ {2}'tensor\.stats': .*$/m,
        `  'tensor.${name}': (file) => w(file)${call}),`,
      ),
      after(
        '__test__/runners/panic-tests.mjs',
        /^ {2}\['stats', 'stats', .*$/m,
        `  ['${name}', '${name}', (file) => file.tensor('w')${call}), { usable: false }],`,
      ),
    ],
    next: `  npm run format && npm run build && npm run types   # commit lib/native/binding.d.ts and index.d.ts
  npm test -- ${name} calls memory/drain              # its tests
Then replace what it computes, in Rust and in its test, and describe it in docs/guide/ and CHANGELOG.md.`,
  }
}
