"""ztensor 1.2.3 writes all samples that it supports, and reads our files: python ztensor_1_2.py DIRECTORY FIXTURES CORPUS OURS."""

import importlib.metadata
import pathlib
import sys

import numpy as np
import samples
from read_ours import read_ours
from record import Record, fingerprint, tensor

import ztensor

record = Record(sys.argv[1], f'ztensor {importlib.metadata.version("ztensor")}')
STORED = {'raw': {}, 'zstd': {'compress': True}, 'zstd-19': {'compress': 19}, 'crc32c': {'checksum': 'crc32c'}, 'sha256': {'checksum': 'sha256'}, 'zstd-crc32c': {'compress': 3, 'checksum': 'crc32c'}, 'zstd-sha256': {'compress': 3, 'checksum': 'sha256'}}

# dtypes that it writes only as a logical type over another dtype: (type, storage)
LOGICAL = {
    'complex64': ('complex64', np.float32),
    'complex128': ('complex128', np.float64),
    'float8_e4m3fn': ('f8_e4m3fn', np.uint8),
    'float8_e5m2': ('f8_e5m2', np.uint8),
    'float8_e4m3fnuz': ('f8_e4m3fnuz', np.uint8),
    'float8_e5m2fnuz': ('f8_e5m2fnuz', np.uint8),
}


def as_tensor(dtype, shape, layout, **components):
    """Its Tensor; values of a logical dtype go in as their storage."""
    logical, storage = LOGICAL.get(dtype, (None, None))
    primary = 'data' if layout == 'dense' else 'values'
    if logical is not None:
        components[primary] = np.frombuffer(components[primary].tobytes(), dtype=storage)
    return ztensor.Tensor(components, shape=list(shape), format=layout, type=logical)


def write(path, entries, options):
    with ztensor.Writer(path) as writer:
        for name, value in entries:
            writer.write(name, value, **options)


def survivors(entries, group, options):
    """(name, value, expected) of the entries that it writes, each first written to a separate file."""
    path = record.path('trial.zt')
    written = []
    for name, make, expected in entries:
        if not record.attempt(f'write {group}/{name}', lambda: write(path, [(name, make())], options)):
            continue

        def check():
            value = ztensor.Reader(path).read(name)
            for role, array in value.components.items():
                if fingerprint(array) != expected['components'][role]:
                    raise ValueError('reads other bytes than it wrote')
            if list(value.shape) != expected['shape']:
                raise ValueError(f'reads shape {value.shape} where it wrote {expected["shape"]}')

        record.attempt(f'read its own {group}/{name}', check)
        written.append((name, make(), expected))
    pathlib.Path(path).unlink(missing_ok=True)
    return written


def file(group, entries, options, **facts):
    written = survivors(entries, group, options)
    write(record.path(f'{group}.zt'), [(name, value) for name, value, _ in written], options)
    record.add(f'{group}.zt', [expected for _, _, expected in written], digests='checksum' in options, **facts)


def dense_entries():
    for name, dtype, array in samples.dense():
        yield name, lambda d=dtype, a=array: as_tensor(d, a.shape, 'dense', data=a), tensor(name, dtype, array.shape, data=array)


def csr_entries():
    for name, dtype, shape, values, indices, indptr in samples.csr():
        expected = tensor(name, dtype, shape, 'sparse_csr', len(values), values=values, indices=indices, indptr=indptr)
        yield name, lambda d=dtype, s=shape, v=values, i=indices, p=indptr: as_tensor(d, s, 'sparse_csr', values=v, indices=i, indptr=p), expected
    _, _, shape, values, indices, indptr = next(s for s in samples.csr() if s[0] == 'csr.float32')
    for index in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64):
        i, p = indices.astype(index), indptr.astype(index)
        name = f'csr.indices_{np.dtype(index).name}'
        expected = tensor(name, 'float32', shape, 'sparse_csr', len(values), values=values, indices=i, indptr=p)
        yield name, lambda s=shape, v=values, i=i, p=p: as_tensor('float32', s, 'sparse_csr', values=v, indices=i, indptr=p), expected


def coo_entries():
    for name, dtype, shape, values, coords in samples.coo():
        expected = tensor(name, dtype, shape, 'sparse_coo', len(values), values=values, coords=coords)
        yield name, lambda d=dtype, s=shape, v=values, c=coords: as_tensor(d, s, 'sparse_coo', values=v, coords=c), expected


def other_entries():
    """An unknown layout, and attributes of tensors."""
    packed = np.arange(8, dtype=np.uint8)
    scale = np.array([0.5, 2], dtype=np.float16)
    attributes = {'bits': 4, 'note': 'x', 'rate': 1.5, 'list': [1, 'two'], 'yes': True}
    expected = tensor('packed', None, (4, 4), 'quantized_group', attributes=attributes, packed=packed, scale=scale)
    yield 'packed', lambda: ztensor.Tensor({'packed': packed, 'scale': scale}, shape=[4, 4], format='quantized_group', attributes=attributes), expected
    data = np.arange(3, dtype=np.float32)
    yield 'noted', lambda: ztensor.Tensor({'data': data}, attributes={'axis': 1}), tensor('noted', 'float32', (3,), attributes={'axis': 1}, data=data)


def appended():
    """A file that was finished, then appended to."""
    path = record.path('appended.zt')
    first, second = np.arange(5, dtype=np.int32), np.arange(7, dtype=np.float64)
    write(path, [('first', ztensor.Tensor({'data': first}))], {})
    with ztensor.Writer.append(path) as writer:
        writer.write('second', ztensor.Tensor({'data': second}), compress=True, checksum='crc32c')
    record.add('appended.zt', [tensor('first', 'int32', (5,), data=first), tensor('second', 'float64', (7,), data=second)])


for group, options in STORED.items():
    file(group, dense_entries(), options)
    file(f'csr-{group}', csr_entries(), options)
    file(f'coo-{group}', coo_entries(), options)
file('other', other_entries(), {})
short = np.arange(3, dtype=np.int16)
names = ['a.b/c', ' ', '層', '\U0001f600', '__proto__', 'x' * 300, '']
file('names', [(n, lambda: ztensor.Tensor({'data': short}), tensor(n, 'int16', (3,), data=short)) for n in names], {})
file('none', [], {})
record.attempt('append', appended)


def through_numpy():
    with ztensor.Writer(record.path('numpy.zt')) as writer:
        writer.write_numpy('scalar', np.array(3, dtype=np.int64))
    shape = tuple(ztensor.Reader(record.path('numpy.zt')).metadata('scalar').shape)
    if shape != ():
        record.notes('write_numpy of a scalar', f'writes shape {list(shape)}')
    record.add('numpy.zt', [tensor('scalar', 'int64', shape, data=np.array(3, dtype=np.int64))])


record.attempt('write_numpy', through_numpy)


def read_fixture(path):
    reader = ztensor.Reader(str(path))
    for name in reader.keys():
        record.attempt(f'read {path.name} {name}', lambda: reader.read(name))
        if reader.metadata(name).format == 'dense':
            record.attempt(f'read_numpy {path.name} {name}', lambda: reader.read_numpy(name))


for path in sorted(pathlib.Path(sys.argv[2]).glob('zt12*.zt')):
    record.attempt(f'open {path.name}', lambda: read_fixture(path))


def read_our_tensor(reader, tensor):
    value = reader.read(tensor['name'])
    if value.format != tensor['format']:
        raise ValueError(f'reads the layout {value.format}')
    return value.shape, value.components


read_ours(record, sys.argv[4], '1.2', ztensor.Reader, read_our_tensor, lambda reader: reader.keys())
record.finish()
