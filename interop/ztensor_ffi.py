"""ztensor 0.1.4, 1.0.0, 1.0.1 and 1.1.1 (the peers over cffi) write all samples that they support, and read our files: python ztensor_ffi.py DIRECTORY FIXTURES CORPUS OURS."""

import importlib.metadata
import inspect
import pathlib
import sys

import numpy as np
import samples
from read_ours import read_ours
from record import Record, fingerprint, tensor

import ztensor

VERSION = importlib.metadata.version('ztensor')
FIXTURES = {'0.1.4': 'zt01', '1.0.0': 'zt10', '1.0.1': 'zt10', '1.1.1': 'zt111'}[VERSION]
OURS = {'0.1.4': '0.1', '1.0.0': '1.0', '1.0.1': '1.0', '1.1.1': '1.2'}[VERSION]

# They call ascontiguousarray, which makes a scalar a vector of one. require() keeps rank 0, which their format has.
np.ascontiguousarray = lambda array: np.require(array, requirements='C')

record = Record(sys.argv[1], f'ztensor {VERSION}')
takes_compress = 'compress' in inspect.signature(ztensor.Writer.add_tensor).parameters
takes_level = takes_compress and VERSION == '1.1.1'


def write(path, add):
    with ztensor.Writer(path) as writer:
        add(writer)


def read_dense(path, name):
    reader = ztensor.Reader(path)
    return np.array(reader.read_tensor(name)), tuple(reader.get_metadata(name).shape)


def survivors(samples_of, add, check, group):
    """The samples that the peer writes, each first written to a separate file. Those that it cannot read back are recorded and included."""
    path = record.path('trial.zt')
    written = []
    for sample in samples_of:
        if record.attempt(f'write {group}/{sample[0]}', lambda: write(path, lambda writer: add(writer, sample))):
            record.attempt(f'read its own {group}/{sample[0]}', lambda: check(path, sample))
            written.append(sample)
    pathlib.Path(path).unlink(missing_ok=True)
    return written


def same(expected, actual):
    if fingerprint(expected) != fingerprint(actual):
        raise ValueError('reads other bytes than it wrote')


def dense_file(group, options):
    def check(path, sample):
        array, shape = read_dense(path, sample[0])
        same(sample[2], array)
        if shape != sample[2].shape:
            raise ValueError(f'reads shape {shape} where it wrote {sample[2].shape}')

    written = survivors(samples.dense(), lambda writer, s: writer.add_tensor(s[0], s[2], **options), check, group)

    def add_all(writer):
        for name, _, array in written:
            writer.add_tensor(name, array, **options)

    write(record.path(f'{group}.zt'), add_all)
    record.add(f'{group}.zt', [tensor(name, dtype, array.shape, data=array) for name, dtype, array in written])


def csr_file():
    def add(writer, s):
        writer.add_sparse_csr(s[0], s[3], s[4], s[5], s[2])

    def check(path, s):
        matrix = ztensor.Reader(path).read_tensor(s[0])
        same(s[3], matrix.data)

    written = survivors(samples.csr(), add, check, 'csr')
    write(record.path('csr.zt'), lambda writer: [add(writer, s) for s in written])
    record.add('csr.zt', [
        tensor(name, dtype, shape, 'sparse_csr', len(values), values=values, indices=indices, indptr=indptr)
        for name, dtype, shape, values, indices, indptr in written
    ])


def coo_file():
    def add(writer, s):
        writer.add_sparse_coo(s[0], s[3], s[4].reshape(-1), s[2])

    def check(path, s):
        matrix = ztensor.Reader(path).read_tensor(s[0])
        same(s[3], matrix.data)

    written = survivors(samples.coo(), add, check, 'coo')
    write(record.path('coo.zt'), lambda writer: [add(writer, s) for s in written])
    record.add('coo.zt', [
        tensor(name, dtype, shape, 'sparse_coo', len(values), values=values, coords=coords)
        for name, dtype, shape, values, coords in written
    ])


def names_file():
    array = np.arange(3, dtype=np.int16)
    names = [n for n in ['a.b/c', ' ', '層', '\U0001f600', 'é', '__proto__', 'constructor', 'x' * 300, '']]
    written = survivors([(name, 'int16', array) for name in names], lambda writer, s: writer.add_tensor(s[0], s[2]), lambda path, s: read_dense(path, s[0]), 'names')
    write(record.path('names.zt'), lambda writer: [writer.add_tensor(s[0], s[2]) for s in written])
    record.add('names.zt', [tensor(name, 'int16', array.shape, data=array) for name, _, _ in written])


def own_fixtures(directory):
    """Reads the vectors of the same format, and records failures."""
    for path in sorted(pathlib.Path(directory).glob(f'{FIXTURES}*.zt')):
        def read_all(path=path):
            reader = ztensor.Reader(str(path))
            for name in reader.get_tensor_names():
                record.attempt(f'read {path.name} {name}', lambda name=name: reader.read_tensor(name))
        record.attempt(f'open {path.name}', read_all)


dense_file('raw', {})
if takes_compress:
    dense_file('zstd', {'compress': True})
else:
    record.notes('write zstd', 'its Python writer has no compression')
if takes_level:
    dense_file('zstd-19', {'compress': 19})
if hasattr(ztensor.Writer, 'add_sparse_csr'):
    csr_file()
    coo_file()
else:
    record.notes('write csr, write coo', 'its Python writer has no sparse tensors')
record.notes('write digests', 'its Python writer has none')
names_file()
if record.attempt('write a file of no tensors', lambda: write(record.path('none.zt'), lambda writer: None)):
    record.add('none.zt', [])
own_fixtures(sys.argv[2])


def read_our_tensor(reader, tensor):
    name, layout = tensor['name'], tensor['format']
    metadata = reader.get_metadata(name)
    if layout == 'dense':
        return metadata.shape, {'data': np.array(reader.read_tensor(name))}
    # By component: how scipy represents a sparse tensor depends on the dtypes and ranks that scipy supports.
    if metadata.layout != layout:
        raise ValueError(f'reads the layout {metadata.layout}')

    def component(role, dtype):
        # The view is valid only while its owner is alive.
        view, _keeps = reader._read_component(name, role, lambda: dtype)
        return np.array(view)

    roles = {role: np.uint64 for role in tensor['components']} | {'values': metadata.dtype}
    return metadata.shape, {role: component(role, dtype) for role, dtype in roles.items()}


read_ours(record, sys.argv[4], OURS, ztensor.Reader, read_our_tensor, lambda reader: reader.get_tensor_names())
record.finish()
