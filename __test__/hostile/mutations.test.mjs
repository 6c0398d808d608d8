// Every vector, damaged: each byte in turn, each length in turn. ZTENSOR_MUTATIONS=all tries three flips of a byte, and padding too;
// a number is the most bytes and lengths of a file, for slow machines.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { fixturePath, vectors } from '../vectors.mjs'

const how = process.env.ZTENSOR_MUTATIONS ?? 'each'
const program = fileURLToPath(new URL('../mutations.mjs', import.meta.url))
const small = vectors.filter(({ bytes }) => bytes.length <= 256 * 1024)
/** Files by the format and generation that their names begin with. */
const kinds = new Map()
for (const file of small) {
  const kind = /^(zt\d\d?|st|btf)/.exec(file.name)[0]
  kinds.set(kind, [...(kinds.get(kind) ?? []), file])
}

const ggufs = readdirSync(fixturePath('gguf')).filter((name) => name.endsWith('.gguf') && name !== 'types.gguf')
kinds.set(
  'gguf',
  ggufs.map((name) => ({ path: fixturePath(`gguf/${name}`) })),
)

for (const [name, files] of kinds) {
  test(`${name}: damaged files are refused, or say what stands in them`, async (t) => {
    const args = ['--expose-gc', program, how, ...files.map(({ path }) => path)]
    // A hang ends by a signal, before ava would leave the process behind.
    const child = spawn(process.execPath, args, { timeout: how === 'all' ? 0 : 280_000 })
    const [stdout, stderr, [status, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
    const { tried, refused, accepted, strangers, wrong, slowest, grownKiB, largest } = JSON.parse(stdout)
    t.log(
      `${tried} tried, ${refused} refused, ${accepted} accepted, at most ${slowest.toFixed()} ms, ${grownKiB} KiB more`,
    )
    t.deepEqual(strangers, [])
    t.deepEqual(wrong, [])
    t.true(tried > 100 && refused > 0)
    t.is(refused + accepted, tried)
    // Of the processor: that of the machine may be busy.
    t.true(slowest < 1000, `${slowest} ms`)
    t.true(grownKiB <= 64 * 1024 + largest / 1024, `${grownKiB} KiB`)
  })
}
