// Many small tensors, with and without waiting for each: their order, their bytes, and which call gets which error.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { create, openSync } from 'ztensor'
import { rejectionOf } from '../helpers/errors.mjs'
import { scratchPath } from '../helpers/scratch.mjs'

const COUNT = 3000
const array = (at) => Float32Array.of(at, -at, at / 3)

async function many(add, options = {}) {
  const path = scratchPath('many.zt')
  const writer = await create(path, options)
  await add(writer)
  await writer.finish()
  return readFileSync(path)
}

for (const options of [{ version: '0.1' }, { version: '1.0' }, { version: '1.2' }, { format: 'safetensors' }]) {
  test(`${options.format ?? options.version}: writes the same bytes with and without waiting for each call`, async (t) => {
    const waiting = await many(async (writer) => {
      for (let at = 0; at < COUNT; at++) await writer.add(`t${at}`, array(at))
    }, options)
    const overlapping = await many(async (writer) => {
      await Promise.all(Array.from({ length: COUNT }, (_, at) => writer.add(`t${at}`, array(at))))
    }, options)
    t.true(waiting.equals(overlapping))
    const file = openSync(waiting, { verify: true })
    t.is(file.size, COUNT)
    t.deepEqual(file.tensor('t2999').data, array(2999))
    file.close()
  })
}

test('small tensors stay in order among large ones, streams and tensors with attributes', async (t) => {
  const names = []
  const bytes = await many(async (writer) => {
    const adds = []
    for (let at = 0; at < 20; at++) {
      const name = (kind) => {
        names.push(`${kind}${at}`)
        return `${kind}${at}`
      }
      adds.push(writer.add(name('small'), array(at)))
      adds.push(writer.add(name('large'), new Float64Array(50_000).fill(at)))
      adds.push(writer.add(name('after'), array(-at)))
      const stream = writer.stream(name('stream'), { dtype: 'uint8', shape: [3] })
      adds.push(writer.add(name('behind'), array(at), { attributes: { at } }))
      adds.push(writer.add(name('last'), array(at)))
      stream.end(Buffer.of(1, 2, at))
    }
    await Promise.all(adds)
  })
  const file = openSync(bytes, { verify: true })
  t.deepEqual([...file.keys()], names)
  t.deepEqual(file.tensor('stream7').data, Uint8Array.of(1, 2, 7))
  t.deepEqual(file.tensor('after7').data, array(-7))
  file.close()
})

test('rejects the wrong call, and continues', async (t) => {
  const bytes = await many(async (writer) => {
    await writer.add('a', array(1))
    const results = await Promise.allSettled([
      writer.add('b', array(2)),
      writer.add('a', array(3)),
      writer.add('c', { dtype: 'float32', shape: [2], data: array(4) }),
      writer.add('d', array(5)),
    ])
    t.deepEqual(
      results.map(({ reason }) => reason?.code),
      [undefined, 'ZT_BAD_INDEX', 'ZT_BAD_SHAPE', undefined],
    )
    t.is(results[1].reason.tensor, 'a')
    const error = await rejectionOf(() => writer.add('a', array(6)))
    t.is(error.code, 'ZT_BAD_INDEX')
  })
  const file = openSync(bytes, { verify: true })
  t.deepEqual([...file.keys()], ['a', 'b', 'd'])
  t.deepEqual(file.tensor('a').data, array(1))
  file.close()
})

test('adds nothing to a writer that has ended', async (t) => {
  const writer = await create(scratchPath('ended.zt'))
  await writer.finish()
  t.is((await rejectionOf(() => writer.add('a', array(1)))).code, 'ZT_CLOSED')
})

test('arguments may change after a call was awaited', async (t) => {
  const one = new Float32Array(100)
  const bytes = await many(async (writer) => {
    for (let at = 0; at < 10; at++) await writer.add(`t${at}`, one.fill(at))
  })
  const file = openSync(bytes, { verify: true })
  for (let at = 0; at < 10; at++) t.deepEqual(file.tensor(`t${at}`).data, new Float32Array(100).fill(at))
  file.close()
})
