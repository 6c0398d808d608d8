// The arguments of functions that edit, compare, divide, share and link, each replaced in turn by unexpected values.
import { readFileSync } from 'node:fs'
import test from 'ava'
import { append, compact, compare, convert, create, editMetadata, open, openSync, verify } from 'ztensor'
import { FORGED, KEYS, tryHostile } from '../helpers/hostile-arguments.mjs'
import { written } from '../helpers/sample-files.mjs'
import { scratchFile, scratchPath } from '../helpers/scratch.mjs'
import { checkpoint, TWO } from '../helpers/sharded.mjs'

const VALUES = Float32Array.of(1, 2, 3, 4)
const one = await written({}, (writer) => writer.add('w', { dtype: 'float32', shape: [2, 2], data: VALUES }))
const two = await written({ version: '2' }, (writer) => writer.add('w', VALUES), scratchPath('two.zt'))
const BYTES = readFileSync(one)
const sharded = checkpoint(TWO).index

/** A call with an open file, which is closed after it. */
const withFile =
  (call, path = one) =>
  async (value) => {
    const file = openSync(path)
    try {
      return await call(file, value)
    } finally {
      file.close()
    }
  }
/** A call with an edit of a new file. */
const withEditor = (call) => async (value) => {
  const editor = await append(scratchFile(BYTES, 'edited.zt'))
  try {
    return await call(editor, value)
  } finally {
    await editor.abort()
  }
}
/** A call with a writer of version 2, and a file to link to. */
const withLink = (call) =>
  withFile(async (file, value) => {
    const writer = await create(scratchPath('linked.zt'), { version: '2', canonical: false })
    try {
      return await call(writer, file, value)
    } finally {
      await writer.abort()
    }
  }, two)
const w = (file) => file.tensor('w')
const RULES = { '*': 'replicate' }
const PLAN = { rank: 0, worldSize: 2, rules: RULES }
/** A ticket with a modified field, of this process and of another one. */
const forged = (part) =>
  withFile((file, value) => {
    const ticket = file.share()
    for (const elsewhere of [false, true]) {
      const changed = elsewhere ? { ...ticket, ticket: { ...ticket.ticket, process: 'another' } } : ticket
      openSync(part(changed, value)).close()
    }
  })
const REQUEST = 'format unread io maxIndexBytes maxDecodedBytes maxRank maxAttributeValues shardNames shardPaths'.split(
  ' ',
)

tryHostile(test, [
  ['append path', ['path'], (value) => append(value), 'path'],
  ['append options', ['options', 'inPlace', ...KEYS], (value) => append(scratchFile(BYTES, 'edited.zt'), value)],
  ...['inPlace', 'signal', 'digest', 'compression', 'alignment', 'maxIndexBytes', 'maxRank', 'maxAttributeValues'].map(
    (key) => [
      `append ${key}`,
      [key, 'level', 'minSavings'],
      (value) => append(scratchFile(BYTES, 'edited.zt'), { [key]: value }),
    ],
  ),
  ['editor.add name', ['name'], withEditor((editor, value) => editor.add(value, VALUES))],
  [
    'editor.add tensor',
    ['tensor', 'dtype', 'data', 'shape', 'array'],
    withEditor((editor, value) => editor.add('x', value)),
  ],
  ['editor.rename name', ['name'], withEditor((editor, value) => editor.rename(value, 'x'))],
  ['editor.rename to', ['to'], withEditor((editor, value) => editor.rename('w', value))],
  ['editor.remove name', ['name'], withEditor((editor, value) => editor.remove(value))],
  ['editor.setMetadata metadata', ['metadata'], withEditor((editor, value) => editor.setMetadata(value))],
  ['editor.setMetadata a value', ['metadata'], withEditor((editor, value) => editor.setMetadata({ a: value }))],
  [
    'editor.setTensorAttributes name',
    ['name'],
    withEditor((editor, value) => editor.setTensorAttributes(value, { a: 1 })),
  ],
  [
    'editor.setTensorAttributes attributes',
    ['attribute'],
    withEditor((editor, value) => editor.setTensorAttributes('w', value)),
  ],
  ['compact path', ['path'], (value) => compact(value), 'path'],
  ['compact options', ['options', ...KEYS], (value) => compact(one, value)],
  ...['onProgress', 'signal', 'maxIndexBytes', 'maxRank', 'maxAttributeValues'].map((key) => [
    `compact ${key}`,
    [key],
    (value) => compact(one, { [key]: value }),
  ]),
  ['editMetadata path', ['path'], (value) => editMetadata(value, {}), 'path'],
  ['editMetadata options', ['options', ...KEYS], (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), value)],
  ...['inPlace', 'onProgress', 'signal', 'maxIndexBytes', 'maxRank', 'maxAttributeValues'].map((key) => [
    `editMetadata ${key}`,
    [key],
    (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), { [key]: value }),
  ]),
  ...['set', 'remove', 'rename', 'drop'].map((key) => [
    `editMetadata ${key}`,
    [key],
    (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), { [key]: value }),
  ]),
  [
    'editMetadata a value of set',
    ['set'],
    (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), { set: { a: value } }),
  ],
  [
    'editMetadata a type of set',
    ['type', 'set'],
    (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), { set: { a: { type: value, value: 1 } } }),
  ],
  [
    'editMetadata a returned name',
    ['rename'],
    (value) => editMetadata(scratchFile(BYTES, 'edited.zt'), { rename: () => value }),
  ],

  ['compare a', ['a'], withFile((file, value) => compare(value, w(file)))],
  ['compare b', ['b'], withFile((file, value) => compare(w(file), value))],
  [
    'compare options',
    ['options', 'atol', 'rtol', ...KEYS],
    withFile((file, value) => compare(w(file), w(file), value)),
  ],
  ...['atol', 'rtol', 'onProgress', 'signal'].map((key) => [
    `compare ${key}`,
    [key],
    withFile((file, value) => compare(w(file), w(file), { [key]: value })),
  ]),
  ['tensor.stats options', ['options', 'bins', 'range', ...KEYS], withFile((file, value) => w(file).stats(value))],
  ...['bins', 'range', 'signal'].map((key) => [
    `tensor.stats ${key}`,
    [key],
    withFile((file, value) => w(file).stats({ bins: 3, [key]: value })),
  ]),
  [
    'tensor.stats an edge of range',
    ['range'],
    withFile((file, value) => w(file).stats({ bins: 3, range: [value, 4] })),
  ],

  ['file.contentDigest algorithm', ['algorithm'], withFile((file, value) => file.contentDigest(value), two)],
  ['file.verify canonical', ['canonical'], withFile((file, value) => file.verify({ canonical: value }), two)],
  ['verify canonical', ['canonical'], (value) => verify(two, { canonical: value })],
  [
    'file.prefetch concurrentBytes',
    ['concurrentBytes'],
    withFile((file, value) => file.prefetch(['w'], { concurrentBytes: value })),
  ],
  ['file.plan options', ['options', 'rules', ...KEYS], withFile((file, value) => file.plan(value))],
  ...['rank', 'worldSize', 'rules'].map((key) => [
    `file.plan ${key}`,
    [key],
    withFile((file, value) => file.plan({ ...PLAN, [key]: value })),
  ]),
  ['file.plan a rule', ['rules'], withFile((file, value) => file.plan({ ...PLAN, rules: [value] }))],
  ['file.plan a pattern', ['rules'], withFile((file, value) => file.plan({ ...PLAN, rules: [[value, 'row']] }))],
  ['file.plan a placement', ['rules'], withFile((file, value) => file.plan({ ...PLAN, rules: { '*': value } }))],
  ['file.plan dim', ['dim'], withFile((file, value) => file.plan({ ...PLAN, rules: { '*': { dim: value } } }))],
  ['file.load plan', ['plan'], withFile((file, value) => file.load({ plan: value }))],

  ...['kind', 'path', 'ticket', 'request'].map((key) => [
    `a shared file’s ${key}`,
    ['source', key],
    forged((shared, value) => ({ ...shared, [key]: value })),
    'path',
  ]),
  ['a shared list’s path', ['source'], forged((shared, value) => ({ ...shared, path: [value] })), 'path'],
  ...['process', 'number', 'identity'].map((key) => [
    `a ticket’s ${key}`,
    ['source'],
    forged((shared, value) => ({ ...shared, ticket: { ...shared.ticket, [key]: value } })),
  ]),
  ...REQUEST.map((key) => [
    `a shared request’s ${key}`,
    ['source', key],
    forged((shared, value) => ({ ...shared, request: { ...shared.request, [key]: value } })),
  ]),

  ['writer.link name', ['name'], withLink((writer, file, value) => writer.link(value, { file, tensor: 'w' }))],
  ['writer.link tensor', ['tensor', 'file', 'shard'], withLink((writer, _file, value) => writer.link('x', value))],
  ...['file', 'tensor', 'shard'].map((key) => [
    `writer.link input’s ${key}`,
    [key],
    withLink((writer, file, value) => writer.link('x', { file, tensor: 'w', [key]: value })),
  ]),
  [
    'create maxShardBytes',
    ['maxShardBytes'],
    (value) => create(scratchPath('sharded.zt'), { version: '2', maxShardBytes: value }),
  ],
  ...['level', 'minSavings', 'frameSize'].map((key) => [
    `create compression.${key}`,
    [key],
    (value) => create(scratchPath('packed.zt'), { version: '2', canonical: false, compression: { [key]: value } }),
  ]),
  ['create generator', ['generator'], (value) => create(scratchPath('named.zt'), { generator: value })],
  ...['cast', 'skip', 'source', 'maxShardBytes'].map((key) => [
    `convert ${key}`,
    [key, 'options', ...KEYS],
    (value) => convert(one, scratchPath('out.zt'), { version: '2', [key]: value }),
  ]),
  ['convert a cast', ['cast'], (value) => convert(one, scratchPath('out.zt'), { cast: { float32: value } })],

  ...Object.entries({ open, openSync, verify }).flatMap(([name, opening]) => [
    [`${name} shards`, ['shards'], (value) => opening(sharded, { shards: value })],
    [`${name} the return value of shards`, ['shards'], (value) => opening(sharded, { shards: () => value }), 'path'],
    [`${name} io`, ['io'], (value) => opening(one, { io: value })],
    [`${name} onMappingLost`, ['onMappingLost'], (value) => opening(one, { onMappingLost: value })],
    [`${name} one of a list`, ['source'], (value) => opening([one, value]), 'path'],
  ]),
])

tryHostile(
  test,
  [
    ['compare a forgery', ['a'], withFile((file, value) => compare(value, w(file)))],
    ['compare with a forgery', ['b'], withFile((file, value) => compare(w(file), value))],
    ['file.load of a forged plan', ['plan'], withFile((file, value) => file.load({ plan: value }))],
    [
      'writer.link of a forged file',
      ['file'],
      withLink((writer, _file, value) => writer.link('x', { file: value, tensor: 'w' })),
    ],
    ['open a forgery', ['source'], (value) => open(value)],
    ['openSync a forgery', ['source'], (value) => openSync(value)],
    ['append to a forgery', ['path'], (value) => append(value)],
  ],
  FORGED,
)
