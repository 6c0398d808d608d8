// Models of OpenVINO (helpers/openvino-writer.mjs). Their data is in other files, which are missing.
import { lost } from './lost.mjs'
import { constant, element, holder, model } from '../helpers/openvino-writer.mjs'

const options = { format: 'openvino' }
const GONE = { code: 'ZT_WARN_INCOMPLETE_SET' }
const refused = (name, bytes, code, error, more) => ({ name, bytes: Buffer.from(bytes), code, error, options: { ...options, ...more } })
/** A fault of one constant. */
const wrong = (name, of, code) => {
  const bytes = Buffer.from(model([constant(of)]))
  return lost(`one odd tensor refuses the file: ${name}`, bytes, code, { options })
}
const opens = (name, bytes, { names = ['w'], warnings = [GONE], code = 'ZT_IO' } = {}) => ({
  name,
  bytes,
  names,
  warnings,
  uses: names.map((tensor) => ({ call: 'load', tensor, code })),
})
/** A constant without elements, which needs no data. */
const empty = (name = 'w') => constant({ name, shape: '0', size: 0 })
const untyped = (name, kind, size) => ({
  ...opens(name, model([constant({ kind, size })]), {
    warnings: [GONE, { code: 'ZT_WARN_UNKNOWN_TYPE', tensor: 'w' }],
    code: 'ZT_BAD_DTYPE',
  }),
})
const plain = `${model([empty()])}`
const nested = (depth) => {
  let inner = empty()
  for (let level = 0; level < depth; level += 1) inner = holder('l', 'body', inner)
  return inner
}

export const cases = [
  { name: 'an empty constant', bytes: Buffer.from(plain), names: ['w'], data: { w: [] } },
  { name: 'no layers', bytes: Buffer.from('<net name="" version="10"/>'), names: [] },
  { name: 'a mark of order, and spaces', bytes: Buffer.from(`\ufeff${plain}\n `), names: ['w'] },
  { name: 'comments', bytes: model([empty()], { before: '<?xml version="1.0" encoding="UTF-8"?><!-- <net> -->' }), names: ['w'] },
  { name: 'elements that are not known', bytes: model([empty(), '<x><y/>&z;</x>'], { more: ['<statistics>1<![CDATA[<]]></statistics>'] }), names: ['w'] },
  { name: 'characters by number', bytes: Buffer.from(plain.replace('"w"', '"&#x77;&#228;&apos;"')), names: ["wä'"] },
  { name: 'a layer without a name', bytes: model([element('layer', { id: 7, type: 'Const' }, element('data', { element_type: 'f32', shape: '0', offset: 0, size: 0 }))]), names: ['layer7'] },
  { name: 'texts', bytes: model([constant({ kind: 'string' })]), names: [], warnings: [{ code: 'ZT_WARN_SKIPPED' }] },
  { name: 'a constant in a body', bytes: model([holder('a', 'body', empty(), holder('b', 'then_body', empty()))]), names: ['a.body.w', 'a.body.b.then_body.w'] },
  { name: 'as many bodies as may be', bytes: model([nested(30)]), names: [`${'l.body.'.repeat(30)}w`] },
  {
    name: 'names that stand twice',
    bytes: model([empty(), empty('w~2'), empty()]),
    names: ['w', 'w~2', 'w~3'],
    warnings: [{ code: 'ZT_WARN_RENAMED', tensor: 'w~3' }],
  },
  {
    name: 'weights of version 7',
    bytes: model([element('layer', { id: 0, name: 'fc', type: 'FullyConnected' }, element('blobs', {}, element('weights', { offset: 0, size: 8 })))], { version: 10 }),
    names: [],
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  },
  {
    name: 'more values than the limit',
    bytes: model([empty()], { more: [element('rt_info', {}, ...Array.from({ length: 9 }, (_, at) => element(`a${at}`, { value: at })))] }),
    options: { maxAttributeValues: 40 },
    names: ['w'],
    warnings: [{ code: 'ZT_WARN_SKIPPED' }],
  },
  opens('a constant', model([constant()])),
  opens('two constants of the same bytes', model([constant(), constant({ name: 'v' })]), { names: ['w', 'v'] }),
  opens('more bytes than the shape', model([constant({ size: 9 })])),
  opens('a half byte', model([constant({ kind: 'f4e2m1', shape: '3', size: 2 })])),
  untyped('a type without a dtype', 'i4', 1),
  untyped('a type that is not known', 'f8e3m4', 2),
  wrong('fewer bytes than the shape', { size: 7 }, 'ZT_BAD_SHAPE'),
  wrong('int4 of too few bytes', { kind: 'i4', shape: '3', size: 1 }, 'ZT_BAD_SHAPE'),
  wrong('3 bits of too few bytes', { kind: 'u3', shape: '9', size: 5 }, 'ZT_BAD_SHAPE'),
  wrong('a negative dimension', { shape: '-1' }, 'ZT_BAD_SHAPE'),
  wrong('a dimension that is not known', { shape: '?' }, 'ZT_BAD_SHAPE'),
  wrong('a dimension of no digits', { shape: '2,' }, 'ZT_BAD_SHAPE'),
  wrong('more elements than a u64', { shape: '4294967296,4294967296' }, 'ZT_LIMIT'),
  wrong('more dimensions than may be', { shape: new Array(65).fill(1).join() }, 'ZT_LIMIT'),
  wrong('data beyond 2^53', { offset: 2 ** 53 }, 'ZT_LIMIT'),
  wrong('data beyond 2^64', { offset: (2n ** 64n - 1n).toString() }, 'ZT_LIMIT'),
  wrong('an offset beyond 2^64', { offset: (2n ** 64n).toString() }, 'ZT_BAD_INDEX'),
  wrong('a negative offset', { offset: -1 }, 'ZT_BAD_INDEX'),
  wrong('a size that is no number', { size: 'all' }, 'ZT_BAD_INDEX'),
  wrong('no type', { kind: null }, 'ZT_BAD_INDEX'),
  { ...wrong('no shape', {}, 'ZT_BAD_INDEX'), bytes: Buffer.from(`${model([constant()])}`.replace(' shape="2"', '')) },
  { ...wrong('no offset', {}, 'ZT_BAD_INDEX'), bytes: Buffer.from(`${model([constant()])}`.replace(' offset="0"', '')) },
  { ...wrong('no size', {}, 'ZT_BAD_INDEX'), bytes: Buffer.from(`${model([constant()])}`.replace(' size="8"', '')) },
  refused('version 7', model([], { version: 7 }), 'ZT_UNSUPPORTED_VERSION', { rule: true }),
  refused('version 12', model([], { version: 12 }), 'ZT_UNSUPPORTED_VERSION'),
  { name: 'version 7, from its attribute', bytes: model([], { version: 7 }), code: 'ZT_UNSUPPORTED_VERSION' },
  refused('no version', model([], { version: null }), 'ZT_BAD_MAGIC'),
  refused('a version of two numbers', model([], { version: '1.20' }), 'ZT_BAD_MAGIC'),
  refused('another root', '<model name="a" version="11"/>', 'ZT_BAD_MAGIC'),
  refused('no XML', 'net net net', 'ZT_BAD_MAGIC'),
  refused('a second root', `${plain}<net/>`, 'ZT_BAD_INDEX', { rule: true, offset: true }),
  refused('a document type', plain.replace('<net', '<!DOCTYPE net [<!ENTITY a "b">]><net'), 'ZT_BAD_INDEX', { rule: true }),
  refused('entities of entities', plain.replace('<net', '<!DOCTYPE net [<!ENTITY a "&#97;"><!ENTITY b "&a;&a;&a;">]><net').replace('"w"', '"&b;"'), 'ZT_BAD_INDEX'),
  refused('an entity that is not known', plain.replace('"w"', '"&lol;"'), 'ZT_BAD_INDEX'),
  refused('an attribute that appears twice', plain.replace('name="w"', 'name="w" name="w"'), 'ZT_BAD_INDEX'),
  refused('an attribute without quotes', plain.replace('name="w"', 'name=w'), 'ZT_BAD_INDEX'),
  refused('ends that do not match', plain.replace('</layers>', '</layer>'), 'ZT_BAD_INDEX'),
  refused('elements that do not end', plain.slice(0, plain.indexOf('</layers>')), 'ZT_TRUNCATED'),
  refused('an element that is cut off', plain.slice(0, plain.indexOf('offset')), 'ZT_TRUNCATED'),
  refused('bytes that are not UTF-8', Buffer.concat([Buffer.from(plain.slice(0, -6)), Buffer.of(0xff), Buffer.from(plain.slice(-6))]), 'ZT_BAD_INDEX'),
  refused('bodies too deep', model([nested(32)]), 'ZT_LIMIT'),
  refused('very many elements that do not end', `<net name="" version="11">${'<a>'.repeat(100_000)}`, 'ZT_LIMIT'),
  refused('very many attributes', plain.replace('name="w"', `name="w"${Array.from({ length: 2000 }, (_, at) => ` a${at}=""`).join('')}`), 'ZT_LIMIT'),
  refused('a name too long', model([empty('w'.repeat(70_000))]), 'ZT_LIMIT'),
  refused('a path too long', model([holder('l'.repeat(5000), 'body', empty())]), 'ZT_LIMIT'),
  refused('an index of 100 bytes', plain, 'ZT_LIMIT', undefined, { maxIndexBytes: 100 }),
  refused('more constants than the index may have', model(Array.from({ length: 100 }, (_, at) => empty(`${at}`))), 'ZT_LIMIT', undefined, { maxIndexBytes: 15_000 }),
]
