"""llama.cpp's library of node-llama-cpp, called as llama-quantize does.

    python llama_peer.py FOLDER SOURCE JOBS

FOLDER has the libraries. JOBS is a JSON list of [file type, target, importance]: importance is null, or a GGUF file of llama-imatrix and
the path that the target records. Prints the result of each: 0 for success.
"""

import ctypes
import json
import os
import pathlib
import sys

folder, source, jobs = pathlib.Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
for name in ["libggml-base.so", *sorted(one.name for one in folder.glob("libggml*.so")), *sorted(one.name for one in folder.glob("libllama.v*"))]:
    library = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL) if not name.startswith("libggml-cpu") else None
    if library is not None and "llama" in name:
        llama = library


class Parameters(ctypes.Structure):
    _fields_ = [
        ("threads", ctypes.c_int32),
        ("file_type", ctypes.c_int),
        ("output_type", ctypes.c_int),
        ("embedding_type", ctypes.c_int),
        *((name, ctypes.c_bool) for name in ("requantize", "output", "copy", "pure", "keep_split", "dry_run")),
        *((name, ctypes.c_void_p) for name in ("importance", "overrides", "types", "prune")),
        ("most", ctypes.c_size_t),
    ]


class Importance(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("data", ctypes.POINTER(ctypes.c_float)), ("size", ctypes.c_size_t)]


class Value(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("text", ctypes.c_char * 128)]


class Override(ctypes.Structure):
    _fields_ = [("tag", ctypes.c_int), ("key", ctypes.c_char * 128), ("value", Value)]


def override(key, value):
    made = Override(key=key.encode())
    if isinstance(value, str):
        made.tag, made.value.text = 3, value.encode()[:127]
    else:
        made.tag, made.value.integer = 0, value
    return made


def importance(path, recorded):
    """The importance of each tensor as the library takes it, and the metadata that llama-quantize adds."""
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: np.array(tensor.data) for tensor in reader.tensors}
    arrays = {}
    for name in sorted(name.removesuffix(".in_sum2") for name in tensors if name.endswith(".in_sum2")):
        counts = tensors[name + ".counts"].reshape(-1, 1).astype(np.float32)
        sums = tensors[name + ".in_sum2"].reshape(counts.size, -1).astype(np.float32)
        arrays[name] = np.where(counts > 0, sums / np.where(counts > 0, counts, 1), np.float32(1)).astype(np.float32)
    pointer = ctypes.POINTER(ctypes.c_float)
    data = [Importance(name.encode(), array.ctypes.data_as(pointer), array.size) for name, array in arrays.items()]
    contents = {key: reader.fields[f"imatrix.{key}"].contents() for key in ("datasets", "chunk_count")}
    overrides = [
        override("quantize.imatrix.file", recorded),
        override("quantize.imatrix.dataset", contents["datasets"][0]),
        override("quantize.imatrix.entries_count", len(data)),
        override("quantize.imatrix.chunks_count", contents["chunk_count"]),
    ]
    lists = (Importance * (len(data) + 1))(*data), (Override * (len(overrides) + 1))(*overrides)
    return lists, arrays


llama.llama_model_quantize_default_params.restype = Parameters
llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(Parameters)]
results = []
for file_type, target, weights in jobs:
    parameters = llama.llama_model_quantize_default_params()
    parameters.file_type, parameters.threads = file_type, os.cpu_count()
    if weights is not None:
        (data, overrides), _arrays = importance(*weights)
        parameters.importance, parameters.overrides = (ctypes.cast(one, ctypes.c_void_p) for one in (data, overrides))
    results.append(llama.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)))
print("\nRESULTS", json.dumps(results))
