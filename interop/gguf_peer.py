"""Prints what the gguf package reads: python gguf_peer.py FILE... prints JSON, one object per file."""

import hashlib
import json
import sys

from gguf import GGUFReader


def value(found):
    return [item.decode('utf-8', 'replace') if isinstance(item, bytes) else item for item in found] if isinstance(found, list) else found


def read(path):
    reader = GGUFReader(path)
    # The reader also adds the fields of the header, under separate names.
    fields = {key: field for key, field in reader.fields.items() if not key.startswith('GGUF.')}
    return {
        'fields': {key: [[int(kind) for kind in field.types], str(value(field.contents()))] for key, field in fields.items()},
        'tensors': [
            [tensor.name, [int(size) for size in tensor.shape], int(tensor.tensor_type), hashlib.sha256(tensor.data.tobytes()).hexdigest()]
            for tensor in reader.tensors
        ],
    }


print(json.dumps([read(path) for path in sys.argv[1:]]))
