// The rows of memory: the peak memory of each kind of work above that of an idle process, each in a new process.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { warm } from './inputs.mjs'
import { peakByPeer } from './peers.mjs'

const child = fileURLToPath(new URL('peak.mjs', import.meta.url))
const STATE = 'a new process, warm file; includes mapped pages of the file'
const MIB = 2 ** 20

/** The peak memory of work by this package or the hand-written loader, in bytes. */
export const peak = (how, work, ...args) =>
  Number(execFileSync(process.execPath, [child, how, work, ...args], { encoding: 'utf8' }))

export async function* memory({ inputs }) {
  const [many, large] = [inputs.many(), inputs.large()]
  const [hashed, target] = [await inputs.crc32c(), inputs.path('written.zt')]
  for (const [what, { path }, work, hand, names, ...args] of [
    ['100,000 tensors: open and list', many, 'list', 'list', ['safetensors 0.8']],
    ['2.47 GB: alias all and touch each page', large, 'touch', 'touch', ['safetensors 0.8']],
    ['2.47 GB: load() all', large, 'load', 'load', []],
    ['2.47 GB: load({ into }), including the array of 1.05 GB', large, 'loadInto', undefined, []],
    ['2.47 GB: load({ into, as: "float32" }), including the array of 1.05 GB', large, 'widenInto', undefined, []],
    ['2.47 GB: verify crc32c', hashed, 'verify', undefined, []],
    ['2.47 GB: convert to zTensor 1.0', large, 'write', undefined, [], target, '{"version":"1.0"}'],
    ['2.47 GB: convert to safetensors', hashed, 'write', undefined, [], target, '{"format":"safetensors"}'],
    [
      '2.47 GB: convert to canonical zTensor 2',
      large,
      'write',
      undefined,
      ['ztensor 2.1.2'],
      target,
      '{"version":"2"}',
    ],
  ]) {
    warm(path)
    const byName = work === 'write' ? 'convert' : work
    const peers = names.map((name) => [name, peakByPeer(name, byName, path, args.slice(0, 1))])
    const others = hand === undefined ? [] : [['hand-written', peak('hand-written', hand, path)]]
    const known = [...others, ...peers].filter(([, bytes]) => bytes !== undefined)
    yield {
      work: `${what}: peak memory, MiB`,
      state: STATE,
      ours: peak('ours', work, path, ...args) / MIB,
      peers: Object.fromEntries(known.map(([name, bytes]) => [name, bytes / MIB])),
    }
  }
  rmSync(target, { force: true })
}
