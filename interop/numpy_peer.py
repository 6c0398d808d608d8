"""Reads our files with numpy.load. Usage: numpy_peer.py FOLDER, with our files and written.json; prints the differences."""
import hashlib
import json
import os
import sys

import numpy as np

folder = sys.argv[1]
with open(os.path.join(folder, "written.json")) as file:
    written = json.load(file)
wrong = []
for name, tensors in written.items():
    loaded = np.load(os.path.join(folder, name), allow_pickle=False)
    arrays = {"arr_0": loaded} if name.endswith(".npy") else {key: loaded[key] for key in loaded.files}
    if list(arrays) != list(tensors):
        wrong.append(f"{name}: holds {list(arrays)}, not {list(tensors)}")
        continue
    for key, expected in tensors.items():
        array = arrays[key]
        found = {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": hashlib.sha256(array.tobytes()).hexdigest()}
        if found != expected:
            wrong.append(f"{name}, {key}: {found}, not {expected}")
    if name.endswith(".npz"):
        if (bad := loaded.zip.testzip()) is not None:
            wrong.append(f"{name}: zipfile finds {bad} damaged")
print(json.dumps(wrong))
