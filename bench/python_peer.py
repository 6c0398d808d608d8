"""The same work through Python safetensors. Usage: python_peer.py ROUNDS PATH; prints one JSON object."""
import gc
import json
import sys
import time

import numpy
from safetensors import safe_open

rounds, path = int(sys.argv[1]), sys.argv[2]


def open_and_list():
    with safe_open(path, "np") as file:
        for name in file.keys():
            part = file.get_slice(name)
            part.get_dtype(), part.get_shape()


def touch():
    total = 0
    with safe_open(path, "np") as file:
        for name in file.keys():
            total += int(file.get_tensor(name).reshape(-1).view(numpy.uint8)[::4096].sum())
    return total


def median(work):
    times = []
    for _ in range(rounds):
        gc.collect()
        start = time.perf_counter()
        work()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[rounds // 2]


result = {"list": median(open_and_list)}
try:
    result["touch"] = median(touch)
except TypeError as error:  # NumPy alone has no bfloat16
    result["note"] = str(error)
print(json.dumps(result))
