// ONNX models, damaged: each byte in turn, each length in turn (22-mutations.test.mjs says more).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import test from 'ava'

const how = process.env.ZTENSOR_MUTATIONS ?? 'each'
const pathOf = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))

for (const name of ['types-raw', 'types-typed', 'graph']) {
  test(`${name}: damaged models are refused, or say what stands in them`, async (t) => {
    const args = ['--expose-gc', pathOf('mutations.mjs'), how, pathOf(`fixtures/onnx/${name}.onnx`)]
    // A hang ends by a signal, before ava would leave the process behind.
    const child = spawn(process.execPath, args, { timeout: how === 'all' ? 0 : 280_000 })
    const [stdout, stderr, [status, signal]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ])
    t.deepEqual({ status, signal, stderr }, { status: 0, signal: null, stderr: '' })
    const { tried, refused, accepted, strangers, wrong, slowest, grownKiB, largest } = JSON.parse(stdout)
    t.log(`${tried} tried, ${refused} refused, ${accepted} accepted, at most ${slowest.toFixed()} ms`)
    t.deepEqual(strangers, [])
    t.deepEqual(wrong, [])
    t.true(tried > 100 && refused > 0)
    t.is(refused + accepted, tried)
    t.true(slowest < 1000, `${slowest} ms`)
    t.true(grownKiB <= 64 * 1024 + largest / 1024, `${grownKiB} KiB`)
  })
}
