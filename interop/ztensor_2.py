"""ztensor 2.1.2 writes all samples that it supports, reads our files, and rewrites our canonical files: python ztensor_2.py DIRECTORY FIXTURES CORPUS OURS."""

import importlib.metadata
import json
import pathlib
import sys

import numpy as np
import samples
from read_ours import read_ours
from record import Record, tensor

import ztensor

record = Record(sys.argv[1], f'ztensor {importlib.metadata.version("ztensor")}')

# storage and logical type of each of our names
TYPES = {
    'float64': ('f64', None),
    'float32': ('f32', None),
    'float16': ('f16', None),
    'bfloat16': ('bf16', None),
    'int64': ('i64', None),
    'int32': ('i32', None),
    'int16': ('i16', None),
    'int8': ('i8', None),
    'uint64': ('u64', None),
    'uint32': ('u32', None),
    'uint16': ('u16', None),
    'uint8': ('u8', None),
    'bool': ('u8', 'bool'),
    'float8_e4m3fn': ('u8', 'f8_e4m3fn'),
    'float8_e5m2': ('u8', 'f8_e5m2'),
    'float8_e4m3fnuz': ('u8', 'f8_e4m3fnuz'),
    'float8_e5m2fnuz': ('u8', 'f8_e5m2fnuz'),
    'float8_e8m0fnu': ('u8', 'f8_e8m0'),
    'float4_e2m1fn': ('u8', 'f4_e2m1'),
    'complex64': ('f32', 'complex64'),
    'complex128': ('f64', 'complex128'),
}
ZSTD = 'zt.zstd-seekable/1'
QUANT_GROUP = {
    'bits': 4,
    'group_size': 8,
    'axis': 1,
    'packing': {'word': 'u32', 'order': 'lsb_first', 'per_word': 8},
    'scale_form': 'f16_factors',
    'zero_point': {'form': 'tensor', 'packing': 'plain'},
}


def part(dtype, array, encoding=None):
    storage, logical = TYPES[dtype]
    fields = {'dtype': storage, 'data': np.ascontiguousarray(array).tobytes()}
    if logical is not None:
        fields['logical'] = logical
    if encoding is not None:
        fields['encoding'] = encoding
    return fields


def dense():
    for name, dtype, array in samples.dense():
        yield name, array.shape, 'dense', {'data': (dtype, array)}, {}, tensor(name, dtype, array.shape, data=array)
    for count in (0, 1, 5, 8):
        packed = np.arange(1, (count + 1) // 2 + 1, dtype=np.uint8)
        name = f'float4_e2m1fn.{count}'
        yield name, (count,), 'dense', {'data': ('float4_e2m1fn', packed)}, {}, tensor(name, 'float4_e2m1fn', (count,), data=packed)


def csr():
    for name, dtype, shape, values, indices, indptr in samples.csr():
        for index in ('uint32', 'uint64'):
            i, p = indices.astype(index), indptr.astype(index)
            parts = {'values': (dtype, values), 'indices': (index, i), 'indptr': (index, p)}
            full = f'{name}.{index}'
            yield full, shape, 'zt.sparse_csr/1', parts, {}, tensor(full, dtype, shape, 'sparse_csr', len(values), values=values, indices=i, indptr=p)


def coo():
    for name, dtype, shape, values, coords in samples.coo():
        for index in ('uint32', 'uint64'):
            c = coords.astype(index)
            full = f'{name}.{index}'
            yield full, shape, 'zt.sparse_coo/1', {'values': (dtype, values), 'coords': (index, c)}, {}, tensor(full, dtype, shape, 'sparse_coo', len(values), values=values, coords=c)


def profiles():
    data = np.arange(8, dtype=np.uint32)
    scales, zeros = np.arange(8, dtype=np.float16), np.arange(8, dtype=np.int8)
    parts = {'data': ('uint32', data), 'scales': ('float16', scales), 'zeros': ('int8', zeros)}
    yield 'group', (4, 16), 'zt.quant_group/1', parts, QUANT_GROUP, tensor('group', None, (4, 16), 'zt.quant_group/1', data=data, scales=scales, zeros=zeros)
    elements, exponents = np.arange(32, dtype=np.uint8), np.array([127, 128], dtype=np.uint8)
    own = {'block_size': 32, 'scale_form': 'e8m0_exponent'}
    parts = {'data': ('float4_e2m1fn', elements), 'scales': ('float8_e8m0fnu', exponents)}
    yield 'mx', (2, 32), 'zt.mx/1', parts, own, tensor('mx', None, (2, 32), 'zt.mx/1', attributes=own, data=elements, scales=exponents)
    blocks = np.arange(36, dtype=np.uint8)
    own = {'elems_per_block': 32, 'block_bytes': 18}
    yield 'ggml', (2, 32), 'gguf.q4_0/1', {'data': ('uint8', blocks)}, own, tensor('ggml', None, (2, 32), 'gguf.q4_0/1', attributes=own, data=blocks)
    yield 'vendor', (3,), 'pie.paged_kv/1', {'a': ('uint8', blocks), 'b': ('float32', np.ones(2, np.float32))}, {'k': [1, None, True, 1.5]}, tensor('vendor', None, (3,), 'pie.paged_kv/1', attributes={'k': [1, None, True, 1.5]}, a=blocks, b=np.ones(2, np.float32))


def names():
    short = np.arange(3, dtype=np.int16)
    for name in ['a.b/c', ' ', '層', '\U0001f600', '\uffee', '__proto__', 'x' * 300, 'x' * 1024]:
        yield name, (3,), 'dense', {'data': ('int16', short)}, {}, tensor(name, 'int16', (3,), data=short)


def write(path, entries, encoding=None, attributes=None, **options):
    with ztensor.Writer(path, **options) as writer:
        if attributes is not None:
            writer.set_attributes(attributes)
        for name, shape, layout, parts, own, _ in entries:
            made = {role: part(dtype, array, encoding) for role, (dtype, array) in parts.items()}
            writer.add_object(name, list(shape), made, layout=layout, attributes=own or None)


def file(group, entries, **options):
    """Sorted, as its canonical writer requires; each entry is first written to a separate file."""
    trial = record.path('trial.zt')
    entries = sorted(entries, key=lambda entry: entry[0].encode())
    written = [e for e in entries if record.attempt(f'write {group}/{e[0][:40]}', lambda: write(trial, [e], **options))]
    pathlib.Path(trial).unlink(missing_ok=True)
    write(record.path(f'{group}.zt'), written, **options)
    facts = {'attributes': options['attributes']} if 'attributes' in options else {}
    record.add(f'{group}.zt', [entry[-1] for entry in written], digests=True, canonical='canonical' not in options, **facts)


KINDS = {'dense': dense, 'csr': csr, 'coo': coo, 'profiles': profiles, 'names': names, 'none': lambda: []}
ATTRIBUTES = {'made': 'by a peer', 'list': [1, -1, 2.5, 1e300, 65504.0, 0.1, False], 'large': 2**53 - 1, 'none': None}
for kind, entries in KINDS.items():
    file(kind, list(entries()), attributes=ATTRIBUTES)
    file(f'{kind}-4096', list(entries()), attributes=ATTRIBUTES, canonical=False, align=4096)
    file(f'{kind}-zstd', list(entries()), attributes=ATTRIBUTES, canonical=False, encoding=ZSTD)


def appended():
    path = record.path('appended.zt')
    first, second = list(names())[:2]
    write(path, [first])
    write(path, [second], canonical=False, append=True)
    record.add('appended.zt', [first[-1], second[-1]])


appended()


def read_tensor(source, expected):
    found = source[expected['name']]
    arrays = {}
    for role in expected['components']:
        arrays[role] = np.frombuffer(found[role].tobytes(), dtype=np.uint8)
        found[role].verify()
    return found.shape, arrays


ours = pathlib.Path(sys.argv[4])
read_ours(record, ours, '2', ztensor.open, read_tensor, lambda source: source.keys())
for file in json.loads((ours / 'ours.json').read_text())['files']:
    if file['format'] != '2':
        continue
    source = str(ours / file['file'])
    record.attempt(f'verify our {file["file"]}', lambda: ztensor.verify(source, deep=True))
    # It writes canonical files from any form of the source: these must equal ours, byte for byte.
    again = record.path('again.zt')
    ztensor.convert(source, again)
    canonical = ours / file['canonical']
    same = pathlib.Path(again).read_bytes() == canonical.read_bytes()
    record.compares(f'{file["file"]}: rewritten', same, True)
pathlib.Path(record.path('again.zt')).unlink(missing_ok=True)
record.finish()
