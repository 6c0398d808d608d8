"""safetensors writes what it can, and says which files of our corpus it takes: python safetensors_peer.py DIRECTORY FIXTURES CORPUS."""

import importlib.metadata
import json
import pathlib
import sys

import numpy as np
import samples
from record import Record, tensor
from safetensors import TensorSpec, safe_open, serialize_file

record = Record(sys.argv[1], f'safetensors {importlib.metadata.version("safetensors")}')


def serialize(path, tensors, metadata=None):
    # The specs hold addresses only: `tensors` keeps the arrays alive meanwhile.
    specs = {
        name: TensorSpec(dtype=dtype, shape=list(array.shape), data_ptr=array.ctypes.data, data_len=array.nbytes)
        for name, dtype, array in tensors
    }
    serialize_file(specs, path, metadata)


trial = record.path('trial.safetensors')
kept = [s for s in samples.dense() if record.attempt(f'write {s[0]}', lambda: serialize(trial, [s]))]
pathlib.Path(trial).unlink(missing_ok=True)
serialize(record.path('dense.safetensors'), kept)
record.add('dense.safetensors', [tensor(name, dtype, array.shape, data=array) for name, dtype, array in kept])

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
record.finish()
