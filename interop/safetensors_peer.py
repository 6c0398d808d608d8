"""safetensors writes all samples that it supports, reports which files of our corpus it accepts, and reads our files: python safetensors_peer.py DIRECTORY FIXTURES CORPUS OURS."""

import importlib.metadata
import json
import pathlib
import sys

import numpy as np
import samples
from read_ours import read_ours
from record import Record, tensor
from safetensors import TensorSpec, deserialize, safe_open, serialize_file

record = Record(sys.argv[1], f'safetensors {importlib.metadata.version("safetensors")}')


def serialize(path, tensors, metadata=None):
    # The specs hold addresses only: `tensors` keeps the arrays alive meanwhile.
    specs = {
        name: TensorSpec(dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, dtype, array in tensors
    }
    serialize_file(specs, path, metadata)


trial = record.path('trial.safetensors')
written = [s for s in samples.dense() if record.attempt(f'write {s[0]}', lambda: serialize(trial, [s]))]
pathlib.Path(trial).unlink(missing_ok=True)
serialize(record.path('dense.safetensors'), written)
record.add('dense.safetensors', [tensor(name, dtype, array.shape, data=array) for name, dtype, array in written])

# Elements narrower than a byte: the specification counts elements, the bytes hold two of them each.
packed = np.arange(24, dtype=np.uint8).reshape(3, 8)
spec = TensorSpec(dtype='float4_e2m1fn_x2', shape=[3, 8], data_ptr=packed.ctypes.data, data_len=packed.nbytes)
if record.attempt('write float4', lambda: serialize_file({'packed': spec}, record.path('packed.safetensors'))):
    record.add('packed.safetensors', [tensor('packed', 'float4_e2m1fn', (3, 16), data=packed)])

short = np.arange(3, dtype=np.int16)
metadata = {'format': 'np', 'quotes': '"\\\n\t', '層': '\U0001f600', '': 'empty', '__proto__': 'x', 'long': 'y' * 5000}
names = ['a.b/c', ' ', '層', '\U0001f600', '"quoted\\"', 'tab\t\x01', '__proto__', '']
serialize(record.path('names.safetensors'), [(name, 'int16', short) for name in names], metadata)
record.add('names.safetensors', [tensor(name, 'int16', (3,), data=short) for name in names], attributes=metadata)
serialize(record.path('none.safetensors'), [])
record.add('none.safetensors', [])

# A sharded checkpoint, its index as transformers writes it.
shards = {f'model-{part + 1:05}-of-00003.safetensors': written[part::3] for part in range(3)}
for file, part in shards.items():
    serialize(record.path(file), part, {'format': 'pt'})
index = {
    'metadata': {'total_size': sum(array.nbytes for _, _, array in written)},
    'weight_map': {name: file for file, part in shards.items() for name, _, _ in part},
}
text = json.dumps(index, indent=2, sort_keys=True) + '\n'
pathlib.Path(record.path('model.safetensors.index.json')).write_text(text)
sharded = [sample for part in shards.values() for sample in part]
record.add(
    'model.safetensors.index.json',
    [tensor(name, dtype, array.shape, data=array) for name, dtype, array in sharded],
    attributes={'format': 'pt'},
)

for path in sorted(pathlib.Path(sys.argv[2]).glob('st-*.safetensors')):

    def read_all(path=path):
        with safe_open(path, 'np') as file:
            for name in file.keys():
                record.attempt(f'read {path.name} {name} as numpy', lambda: file.get_tensor(name))

    record.attempt(f'open {path.name}', read_all)

corpus = pathlib.Path(sys.argv[3])
verdicts = []
for path in sorted(corpus.glob('*.safetensors')):
    try:
        with safe_open(path, 'np') as file:
            file.keys()
        verdicts.append({'file': path.name, 'accepts': True})
    except BaseException as error:
        verdicts.append({'file': path.name, 'accepts': False, 'message': str(error)})
(corpus / 'verdicts.json').write_text(json.dumps(verdicts))


DTYPES = {
    'float64': 'F64',
    'float32': 'F32',
    'float16': 'F16',
    'bfloat16': 'BF16',
    'int64': 'I64',
    'int32': 'I32',
    'int16': 'I16',
    'int8': 'I8',
    'uint64': 'U64',
    'uint32': 'U32',
    'uint16': 'U16',
    'uint8': 'U8',
    'bool': 'BOOL',
    'float8_e4m3fn': 'F8_E4M3',
    'float8_e5m2': 'F8_E5M2',
    'float8_e4m3fnuz': 'F8_E4M3FNUZ',
    'float8_e5m2fnuz': 'F8_E5M2FNUZ',
    'float8_e8m0fnu': 'F8_E8M0',
    'float6_e2m3fn': 'F6_E2M3',
    'float6_e3m2fn': 'F6_E3M2',
    'float4_e2m1fn': 'F4',
    'complex64': 'C64',
}


def open_ours(path):
    """Every tensor by its name, and the metadata, as its own reader returns them."""
    with safe_open(path, 'np') as file:
        record.compares(f'{pathlib.Path(path).name}: metadata', file.metadata(), {'made': 'by us'})
    return dict(deserialize(pathlib.Path(path).read_bytes()))


def read_our_tensor(reader, tensor):
    found = reader[tensor['name']]
    record.compares(f'dtype of {tensor["name"][:40]}', found['dtype'], DTYPES[tensor['dtype']])
    return found['shape'], {'data': np.frombuffer(found['data'], dtype=np.uint8)}


read_ours(record, sys.argv[4], 'safetensors', open_ours, read_our_tensor, lambda reader: reader.keys())
record.finish()
