// Files of PaddlePaddle (fixtures/paddle-files.py): every array, read in every way.
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { convert, open, openSync } from 'ztensor'
import { ndarray, saved } from '../corpus/paddle.mjs'
import { bytes, call, dict, text } from '../corpus/pytorch.mjs'
import { littleEndian, sameBytes } from '../helpers/bytes.mjs'
import { rejectionOf } from '../helpers/errors.mjs'
import { differences, expectedIn } from '../helpers/expected-files.mjs'
import { testExpected } from '../helpers/foreign-files.mjs'
import { readings } from '../helpers/readings.mjs'
import { scratchPath } from '../helpers/scratch.mjs'
import { fixturePath } from '../helpers/vectors.mjs'

const folder = fixturePath('paddle')
const models = fixturePath('paddle-inference')
const using = (name, look) => {
  const file = openSync(join(folder, name))
  try {
    return look(file)
  } finally {
    file.close()
  }
}

testExpected(folder, {
  same(t, file) {
    t.is(file.format, 'paddle')
  },
  verified(t, { checked, undigested }, _, file) {
    // Files of Paddle have no digests.
    t.deepEqual([checked, undigested], [0, file.size])
  },
})

for (const name of [
  'protocol2.pdparams',
  'protocol4.pdparams',
  'adam.pdopt',
  'dtypes.pdparams',
  'split2.pdparams',
  'split3.pdparams',
])
  test(`${name}: every tensor has the same elements after a conversion`, async (t) => {
    const target = scratchPath('2.zt')
    await convert(join(folder, name), target, { version: '2' })
    const [from, to] = [openSync(join(folder, name)), openSync(target)]
    t.true(from.size > 3)
    for (const tensor of from.values()) {
      const found = to.tensor(tensor.name)
      t.deepEqual([found.dtype, found.shape], [tensor.dtype, tensor.shape], tensor.name)
      sameBytes(t, littleEndian(await found.load()), littleEndian(await tensor.load()), tensor.name)
    }
    from.close()
    to.close()
  })

test('the names of parameters become attributes', (t) => {
  using('protocol4.pdparams', ({ metadata: attributes }) => {
    const names = attributes['StructuredToParameterName@@']
    t.is(names['embedding.weight'], 'embedding_0.w_0')
    t.is(Object.keys(names).length, 9)
  })
  // For tensors in other containers, separately for each.
  using('nested.pdparams', (file) => {
    t.is(file.tensor('model.weight').attributes.name, 'linear_0.w_0')
    t.is(file.metadata.epoch, 3)
    t.is(file.metadata.note, 'tiny')
    t.deepEqual(file.metadata.rates, [0.1, 0.01])
    t.false('model' in file.metadata)
    t.deepEqual(file.warnings, [])
  })
})

test('the scheduler of an optimizer becomes an attribute', (t) => {
  using('adam.pdopt', ({ metadata: attributes }) => {
    t.is(attributes.LR_Scheduler.last_lr, 0.1)
    t.is(attributes.LR_Scheduler.last_epoch, 0)
  })
})

test('warns that uint16 may be bfloat16', (t) => {
  using('dtypes.pdparams', (file) => {
    t.is(file.tensor('bfloat16').dtype, 'uint16')
    t.deepEqual(
      file.warnings.map(({ code, tensor }) => [code, tensor]),
      [['ZT_WARN_UNKNOWN_TYPE', 'bfloat16']],
    )
    t.regex(file.warnings[0].message, /bfloat16/)
  })
})

test('divided arrays are joined, and their slices are not listed', (t) => {
  for (const protocol of [2, 3, 4])
    using(`split${protocol}.pdparams`, (file) => {
      t.deepEqual(file.tensor('large').shape, [50, 70])
      t.deepEqual(file.tensor('half').shape, [30, 31, 4])
      t.is(file.size, 4)
      t.deepEqual(Object.keys(file.metadata), ['StructuredToParameterName@@'])
      // Protocol 2 stores arrays as strings.
      t.is(
        file.tensor('large').copyReason,
        { 2: 'inline', 3: 'reordered' }[protocol] ?? file.tensor('large').copyReason,
      )
      t.deepEqual(file.warnings, [])
    })
})

test('eval: a tensor as Paddle writes it is one, anything else is a name', (t) => {
  using('eval.pdparams', (file) => {
    t.deepEqual([...file.keys()], ['w', 'b'])
    t.deepEqual([...file.tensor('w').data], [0, 1, 2, 3])
    t.deepEqual(
      file.warnings.map(({ code, message }) => [code, /^code: builtins\.eval is unknown/.test(message)]),
      [['ZT_WARN_SKIPPED', true]],
    )
  })
})

test('reads arrays of more than a few bytes in place, not with the pickle', async (t) => {
  // The pickle without them is within the limit; with them it is far over the limit.
  const large = Buffer.alloc(1 << 20, 7)
  const file = await open(saved(dict([text('w'), ndarray([large.length], 'u1', large)])), {
    maxIndexBytes: 4096,
  })
  t.is(file.tensor('w').data.length, large.length)
  t.is(file.tensor('w').data[12345], 7)
  t.true(file.tensor('w').mapped)
  file.close()
})

test('omits long bytes that are not an array, with a warning', async (t) => {
  const file = await open(
    saved(
      dict(
        [text('w'), ndarray([1], 'u1', Buffer.from([7]))],
        [text('bytes'), bytes(Buffer.alloc(5000))],
        [text('short'), bytes(Buffer.alloc(5))],
      ),
    ),
  )
  t.deepEqual([...file.keys()], ['w'])
  t.deepEqual(Object.keys(file.metadata), ['short'])
  t.deepEqual(
    file.warnings.map(({ code, message }) => [code, message]),
    [['ZT_WARN_SKIPPED', 'bytes: a value of 5000 bytes has no value']],
  )
  file.close()
})

for (const [name, tensors] of Object.entries(expectedIn(models))) {
  test(`${name}: takes names from the program in its folder`, async (t) => {
    for (const file of [openSync(join(models, name)), await open(join(models, name))]) {
      t.is(file.format, 'paddle')
      t.deepEqual(differences(file, tensors), [])
      t.deepEqual(file.warnings, [])
      t.deepEqual((await readings(file)).wrong, [])
      t.true((await file.verify()).ok)
      file.close()
    }
  })
}

test('numbers parameters without a matching program, with a warning', async (t) => {
  const numbers = ['0', '1', '2', '3', '4', '5', '6', '7', '8']
  const numbered = (file, message) => {
    t.deepEqual([...file.keys()], numbers)
    t.deepEqual(
      file.warnings.map(({ code }) => code),
      ['ZT_WARN_INCOMPLETE_SET'],
    )
    t.regex(file.warnings[0].message, message)
    file.close()
  }
  numbered(await open(readFileSync(join(models, 'pir.pdiparams'))), /there is no program/)
  const own = scratchPath('models')
  mkdirSync(own)
  const path = join(own, 'm.pdiparams')
  copyFileSync(join(models, 'pir.pdiparams'), path)
  numbered(await open(path), /there is no program/)
  for (const [program, message] of [
    ['{"program": 1}', /cannot be read/],
    ['no JSON', /cannot be read/],
    ['{"program":{"regions":[{"blocks":[{"ops":[{"#":"p","A":[0,"w"]}]}]}]}}', /1 parameters, but the file has 9/],
    [`{"program":{"regions":[{"blocks":[{"ops":[${numbers.map(() => '{"#":"p","A":["w"]}')}]}]}]}}`, /duplicate names/],
  ]) {
    writeFileSync(join(own, 'm.json'), program)
    numbered(await open(path), message)
  }
})

test('does not read a program through a link out of the folder', async (t) => {
  const own = scratchPath('linked')
  mkdirSync(own)
  copyFileSync(join(models, 'pir.pdiparams'), join(own, 'm.pdiparams'))
  symlinkSync(join(models, 'pir.json'), join(own, 'm.json'))
  const file = await open(join(own, 'm.pdiparams'))
  t.is(file.tensor('0').dtype, 'float32')
  file.close()
})

test('another kind of pickle is not a Paddle file', async (t) => {
  const array = ndarray([1], 'u1', Buffer.from([7]))
  for (const other of [
    dict([text('a'), call('collections', 'OrderedDict')], [text('b'), text('no arrays')]),
    call('sklearn.svm', 'SVC', array),
  ]) {
    const { code, message } = await rejectionOf(() => open(saved(other)))
    t.is(code, 'ZT_BAD_MAGIC')
    t.regex(message, /a pickle of Python/)
  }
})
