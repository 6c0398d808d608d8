// GGUF files of tiny checkpoints of each architecture, compared with the output of llama.cpp's converter.
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { convert } from 'ztensor'
import { capture } from '../scripts/command.mjs'
import { environment, succeed } from './peers.mjs'

// Without the other requirements of torch: 3 GB of CUDA, which `cuda_stubs.py` replaces.
const REQUIREMENTS = [
  '--no-deps',
  'torch==2.15.0',
  'setuptools==80.9.0',
  'annotated-doc==0.0.7',
  'annotated-types==0.8.0',
  'anyio==4.16.0',
  'attrs==26.1.0',
  'certifi==2026.10.19.post1',
  'charset-normalizer==3.5.3',
  'click==8.5.1',
  'filelock==4.3.1',
  'fsspec==2026.9.0',
  'h11==0.16.0',
  'hf-xet==1.8.0',
  'httpcore2==2.16.2',
  'httpx2==2.16.2',
  'huggingface_hub==2.4.0',
  'idna==3.20',
  'Jinja2==3.1.6',
  'jsonschema-specifications==2025.9.1',
  'jsonschema==4.26.0',
  'markdown-it-py==4.3.0',
  'MarkupSafe==3.0.4',
  'mdurl==0.1.2',
  'mistral_common==1.13.1',
  'mpmath==1.3.0',
  'networkx==3.6.1',
  'numpy==2.4.6',
  'packaging==26.4',
  'pillow==13.0.0',
  'protobuf==7.36.2',
  'pycountry==26.2.16',
  'pydantic-extra-types==2.11.1',
  'pydantic==2.14.4',
  'pydantic_core==2.50.5',
  'Pygments==2.21.0',
  'PyYAML==6.0.4',
  'referencing==0.37.0',
  'regex==2026.11.19',
  'requests==2.34.2',
  'rich==15.0.0',
  'rpds-py==2026.9.1',
  'safetensors==0.8.0',
  'sentencepiece==0.2.3',
  'shellingham==1.5.4',
  'sympy==1.14.0',
  'tiktoken==0.14.0',
  'tokenizers==0.23.3',
  'tqdm==4.70.1',
  'transformers==5.24.0',
  'truststore==0.10.5',
  'typer==0.29.2',
  'typing-inspection==0.4.5',
  'typing_extensions==4.16.0',
  'urllib3==2.8.0',
]
// The converter is in its source distribution only.
const CONVERTER = 'llama-cpp-python==0.3.36'

const CONVERSION = { checkpoint: true, overwrite: true }

let made

/** The folder of the checkpoints, each with the reference's GGUF file, and a function that runs the script. Created once. */
export function makeCheckpoints(context) {
  made ??= make(context)
  return made
}

async function make({ build, python, interop }) {
  const directory = join(build, 'venv-checkpoints')
  const own = await environment(directory, python, REQUIREMENTS)
  const version = readdirSync(join(directory, 'lib')).find((name) => name.startsWith('python'))
  const stubs = join(build, 'cuda-stubs-checkpoints')
  await succeed(own, [
    join(interop, 'cuda_stubs.py'),
    join(directory, 'lib', version, 'site-packages/torch/lib'),
    stubs,
  ])
  const converter = await converterIn(join(build, 'llama-cpp-python'), own)
  const folder = join(build, 'checkpoints')
  const script = join(interop, 'checkpoints.py')
  const variables = [`LD_LIBRARY_PATH=${stubs}`, `PYTHONPATH=${join(converter, 'gguf-py')}`]
  await succeed('env', [...variables, own, script, 'make', folder, converter])
  return { folder, run: (...args) => capture('env', [...variables, own, script, ...args]) }
}

/** Returns [{ what, error }] for every checkpoint. The error is undefined if our file equals that of the reference. */
export async function compareCheckpoints(context) {
  const { folder, run } = await makeCheckpoints(context)
  for (const name of readdirSync(folder)) {
    // A checkpoint without file is reported by the comparison.
    const failed = ({ message }) => process.stderr.write(`${name}: ${message}\n`)
    await convert(join(folder, name), join(folder, name, 'converted.gguf'), CONVERSION).catch(failed)
  }
  const { output } = await run('compare', folder)
  const compared = [...output.matchAll(/^(equal|DIFFERS|INCOMPLETE) (\S+)((?:\n {4}.*)*)/gm)]
  if (compared.length === 0) throw new Error(output)
  return compared.map(([, word, what, problems]) => ({
    what,
    error: word === 'equal' ? undefined : new Error(`${word}${problems}`),
  }))
}

/** The folder of the converter, extracted from the source distribution. */
async function converterIn(folder, python) {
  mkdirSync(folder, { recursive: true })
  const archive = () => readdirSync(folder).find((name) => name.endsWith('.tar.gz'))
  if (archive() === undefined) {
    const arguments_ = [
      '-m',
      'pip',
      'download',
      '--quiet',
      '--no-deps',
      '--no-binary',
      'llama-cpp-python',
      '-d',
      folder,
    ]
    await succeed(python, [...arguments_, CONVERTER])
  }
  await succeed('tar', ['xzf', join(folder, archive()), '-C', folder, '--strip-components=1'])
  return join(folder, 'vendor/llama.cpp')
}
