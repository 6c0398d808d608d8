// Every vector, damaged: each byte in turn, each length in turn. Some 300 bytes and 300 lengths of each file, spread over all of it;
// with ZTENSOR_MUTATIONS=all every byte with three flips, and every length.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import test from 'ava'
import { vectors } from './vectors.mjs'

const most = process.env.ZTENSOR_MUTATIONS ?? '300'
const program = fileURLToPath(new URL('mutations.mjs', import.meta.url))
const small = vectors.filter(({ bytes }) => bytes.length <= 256 * 1024)
/** Files by the format and generation that their names begin with. */
const kinds = new Map()
for (const file of small) {
  const kind = /^(zt\d\d?|st|btf)/.exec(file.name)[0]
  kinds.set(kind, [...(kinds.get(kind) ?? []), file])
}

for (const [name, files] of kinds) {
  test(`${name}: damaged files are refused, or say what stands in them`, (t) => {
    const { status, signal, stdout, stderr } = spawnSync(
      process.execPath,
      ['--expose-gc', program, most, ...files.map(({ path }) => path)],
      { encoding: 'utf8', timeout: most === 'all' ? 0 : 240_000 },
    )
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
