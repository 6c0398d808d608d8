"""Compares what a library reads in mutated files with what this package reads. Usage: mutated_peer.py LIBRARY FOLDER, which holds the files and
found.json; prints where both read a tensor and differ."""
import contextlib
import hashlib
import io
import json
import os
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")
library, folder = sys.argv[1:]
with open(os.path.join(folder, "found.json")) as file:
    found = json.load(file)


def of_array(array):
    plain = np.ascontiguousarray(array)
    if plain.dtype.byteorder == ">":
        plain = plain.astype(plain.dtype.newbyteorder("<"))
    return list(array.shape), plain.tobytes()


def of_numpy(path):
    loaded = np.load(path, allow_pickle=False)
    if isinstance(loaded, np.ndarray):
        yield "arr_0", *of_array(loaded)
        return
    for key in loaded.files:
        with contextlib.suppress(Exception):  # one member that numpy rejects
            if isinstance(array := loaded[key], np.ndarray):
                yield key, *of_array(array)


def of_safetensors(path):
    from safetensors import deserialize

    with open(path, "rb") as file:
        for name, tensor in deserialize(file.read()):
            # Elements narrower than a byte: the shape counts them, the bytes hold several.
            yield name, list(tensor["shape"]), bytes(tensor["data"])


def of_gguf(path):
    from gguf import GGUFReader

    for tensor in GGUFReader(path).tensors:
        yield tensor.name, [int(size) for size in reversed(tensor.shape)], tensor.data.tobytes()


def of_onnx(path):
    import onnx
    from onnx import numpy_helper

    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        with contextlib.suppress(Exception):  # one tensor that onnx rejects
            array = numpy_helper.to_array(tensor)
            if array.dtype.kind in "fiubc" and array.dtype.names is None:
                yield tensor.name, *of_array(array)


readers = {"numpy": of_numpy, "safetensors": of_safetensors, "gguf": of_gguf, "onnx": of_onnx}
wrong, compared = [], 0
for name, ours in found.items():
    theirs = {}
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):  # files that the library rejects
        for key, shape, data in readers[library](os.path.join(folder, name)):
            theirs[key] = {"shape": shape, "sha256": hashlib.sha256(data).hexdigest()}
    for key, here in theirs.items():
        if key not in ours:
            continue
        compared += 1
        if here != ours[key]:
            wrong.append(f"{name}, {key}: {library} has {here}, we have {ours[key]}")
if compared < 100:
    wrong.append(f"only {compared} tensors were compared")
print(json.dumps(wrong[:50]))
