// The real readers and writers that we compare with, each in a separate virtual environment.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { capture } from '../scripts/command.mjs'

export const COMMON = ['numpy==2.4.6', 'ml_dtypes==0.6.0', 'scipy==1.17.1']

// Tensors of our files that a peer cannot read, because it lacks the dtype or layout. It must read all others.
const CANNOT_READ = {
  '0.1.4': [/-(?:csr|coo)-[^:]*: (?:csr|coo)\./],
  '1.0.0': [],
  '1.0.1': [],
  // Complex numbers have twice as many parts as elements.
  '1.1.1': [/-dense-[^:]*: complex/],
  '1.2.3': [/-dense-[^:]*: complex/],
  '2.1.2': [],
}

export const peers = [
  ...['0.1.4', '1.0.0', '1.0.1', '1.1.1'].map((version) => ({
    name: `ztensor ${version}`,
    requirements: [...COMMON, 'cffi==2.1.1', `ztensor==${version}`],
    script: 'ztensor_ffi.py',
    cannotRead: CANNOT_READ[version],
  })),
  {
    name: 'ztensor 1.2.3',
    requirements: [...COMMON, 'ztensor==1.2.3'],
    script: 'ztensor_1_2.py',
    cannotRead: CANNOT_READ['1.2.3'],
  },
  {
    name: 'ztensor 2.1.2',
    requirements: [...COMMON, 'ztensor==2.1.2'],
    script: 'ztensor_2.py',
    cannotRead: CANNOT_READ['2.1.2'],
  },
  {
    name: 'safetensors 0.8.0',
    requirements: [...COMMON, 'safetensors==0.8.0'],
    script: 'safetensors_peer.py',
    cannotRead: [],
  },
]

/** Runs a program. Throws its output if it fails. */
export async function succeed(program, args) {
  const { status, output } = await capture(program, args)
  if (status !== 0) throw new Error(`${program} ${args.join(' ')} ended with ${status}:\n${output}`)
}

const read = (path) => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** The Python of a peer's environment. Creates it with `python` unless one with the same requirements exists. */
export async function environment(directory, python, requirements) {
  const [bin, executable] = process.platform === 'win32' ? ['Scripts', 'python.exe'] : ['bin', 'python']
  const own = join(directory, bin, executable)
  const stamp = join(directory, 'requirements.txt')
  const wanted = `${requirements.join('\n')}\n`
  if (read(stamp) === wanted) return own
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  await succeed(python, ['-m', 'venv', directory])
  await succeed(own, [
    '-m',
    'pip',
    'install',
    '--quiet',
    '--no-compile',
    '--disable-pip-version-check',
    ...requirements,
  ])
  // written last, so that an interrupted installation is repeated
  writeFileSync(stamp, wanted)
  return own
}
