"""Quantizes by llama.cpp's `ggml_quantize_chunk` and by our program, and compares the blocks byte for byte, or the times.

    quantize_peer.py compare LIBRARY PROGRAM FOLDER WEIGHTS
    quantize_peer.py time LIBRARY PROGRAM FOLDER MEGABYTES ROUNDS [TYPE ...]

LIBRARY is libggml-base.so, PROGRAM is crates/core/examples/quantize.rs, built, or for `compare` also interop/quantize-addon.mjs. `compare`
prints {what, error} of each check in JSON, `time` prints {type, ours, theirs} with the ms of each round.
"""

import ctypes
import json
import os
import subprocess
import sys
import time

import numpy as np

NUMBERS = {
    "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q3_k": 11, "q4_k": 12, "q5_k": 13, "q6_k": 14, "q8_k": 15,
    "iq2_xxs": 16, "iq2_xs": 17, "iq2_s": 22, "iq3_xxs": 18, "iq3_s": 21, "iq1_s": 19, "iq1_m": 29,
    "iq4_nl": 20, "iq4_xs": 23, "tq1_0": 34, "tq2_0": 35, "mxfp4": 39, "nvfp4": 40,
}  # fmt: skip
WITH_IMPORTANCE = ["q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs"]
NEED_IMPORTANCE = ["iq2_xxs", "iq2_xs", "iq1_s", "iq1_m"]
# Without importance the reference quantizes blocks to these, but no files.
REFUSED_IN_FILES = ["iq2_s", "iq3_xxs"]
# Unusual weights end the process of the reference in some types.
ORDINARY_ONLY = [*NEED_IMPORTANCE, "iq2_s", "iq3_xxs", "iq3_s"]
WITH_IMPORTANCE += ORDINARY_ONLY
ROW = 1024
SEED = 20240229

mode, library, program, folder = sys.argv[1:5]
SOURCE, OUT, IMPORTANCE = (os.path.join(folder, name) for name in ("source.f32", "blocks.bin", "importance.f32"))
ggml = ctypes.CDLL(library)
ggml.ggml_quantize_chunk.restype = ggml.ggml_type_size.restype = ctypes.c_size_t
ggml.ggml_blck_size.restype = ctypes.c_int64
ggml.ggml_validate_row_data.restype = ctypes.c_bool


def pointer(array):
    return None if array is None else ctypes.c_void_p(array.ctypes.data)


def theirs(name, source, importance):
    """Returns the blocks of the reference, and its time in ms."""
    number = NUMBERS[name]
    count = source.size // ggml.ggml_blck_size(number)
    out = np.zeros((count, ggml.ggml_type_size(number)), np.uint8)
    ggml.ggml_quantize_init(number)
    begin = time.perf_counter()
    if name == "q8_k":  # ggml_quantize_chunk does not support it
        ggml.quantize_row_q8_K_ref(pointer(source), pointer(out), ctypes.c_int64(source.size))
    else:
        rows = ctypes.c_int64(source.size // ROW)
        ggml.ggml_quantize_chunk(number, pointer(source), pointer(out), ctypes.c_int64(0), rows, ctypes.c_int64(ROW), pointer(importance))
    return out, (time.perf_counter() - begin) * 1e3


def ours(name, importance, rounds=1):
    """Returns our blocks, and the time of each round in ms. The input files exist already."""
    arguments = [program, name, str(ROW), SOURCE, OUT, str(rounds)] + ([] if importance is None else [IMPORTANCE])
    times = json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)
    return np.fromfile(OUT, np.uint8), times


def blocks_of(checks):
    """Our blocks of each pair of a type and its importance, which may be None. The package gets a separate source for each."""
    if not program.endswith(".mjs"):
        yield from (ours(name, importance)[0] for name, importance in checks)
        return
    types = [name if importance is None else f"+{name}" for name, importance in checks]
    subprocess.run(["node", program, str(ROW), IMPORTANCE, folder, *types], check=True)
    yield from (np.fromfile(part("blocks", at), np.uint8) for at in range(len(checks)))


def part(what, at):
    return os.path.join(folder, f"{at}.{what}")


def accepts(name, source, importance):
    """Returns whether llama-quantize accepts each row as input and as output."""
    blocks, _ = theirs(name, source, importance)
    rows = blocks.reshape(source.size // ROW, -1)
    quiet, errors = os.open(os.devnull, os.O_WRONLY), os.dup(2)
    os.dup2(quiet, 2)  # the library prints each that it rejects
    valid = [
        ggml.ggml_validate_row_data(0, pointer(row), ctypes.c_size_t(row.nbytes))
        and ggml.ggml_validate_row_data(NUMBERS[name], pointer(block), ctypes.c_size_t(block.nbytes))
        for row, block in zip(source.reshape(-1, ROW), rows, strict=True)
    ]
    os.dup2(errors, 2)
    os.close(quiet)
    os.close(errors)
    return np.array(valid)


def distributions(random, count):
    """Pairs of a name and weights."""
    yield "normal", random.standard_normal(count) * 0.02
    yield "uniform", random.uniform(-1, 1, count)
    yield "student", random.standard_t(2, count)
    yield "lognormal", random.lognormal(0, 2, count) * random.choice([-1, 1], count)
    yield "sparse", random.standard_normal(count) * (random.random(count) < 0.05)
    yield "equal", np.repeat(random.standard_normal(count // 256), 256)


def unusual(random):
    """Rows of extreme magnitudes, NaN, infinities, zeros with signs, offsets and ties."""
    rows = []
    normal = lambda scale=1.0: random.standard_normal(ROW) * scale
    for value in (0.0, -0.0, 1.0, -1.0, 65504.0, 65520.0, 1e-45, -1e-45, 1.2e-38, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan):
        single, few = normal(), normal()
        single[random.integers(ROW)] = value
        few[random.random(ROW) < 0.02] = value
        rows += [np.full(ROW, value), single, few, np.where(random.random(ROW) < 0.5, value, 0.0)]
    with np.errstate(all="ignore"):
        for exponent in range(-46, 39):
            scale = 10.0**exponent
            rows += [normal(scale), np.abs(normal(scale)), -np.abs(normal(scale)), 1 + normal(scale), -3 + normal(scale)]
    rows += [random.integers(low, high, ROW) / by for low, high, by in [(-8, 9, 1), (0, 2, 1), (-1, 2, 2), (-128, 128, 2), (0, 16, 4)]]
    # Which of two NaN survives an addition, and so the bits of its result, is the choice of a compiler: NaN of one kind alone.
    patterns = [random.integers(0, 2**32, ROW, dtype=np.uint32).view(np.float32) for _ in range(32)]
    rows += [np.where(np.isnan(pattern), 1, pattern) for pattern in patterns]
    rows += [2.0 ** random.integers(-149, 128, ROW) * random.choice([-1, 1], ROW) for _ in range(32)]
    rows += [normal() * np.repeat(10.0 ** random.uniform(-8, 0, ROW // 16), 16) for _ in range(32)]
    return np.concatenate(rows)


def compare(weights):
    random = np.random.default_rng(SEED)
    results = []
    with np.errstate(all="ignore"):
        sources = [("unusual", unusual(random)), *distributions(random, weights // ROW * ROW)]
    for what, source in sources:
        with np.errstate(all="ignore"):
            source = np.ascontiguousarray(source, "<f4")
        source.tofile(SOURCE)
        importance = (random.standard_normal(ROW) ** 2 * (random.random(ROW) < 0.9)).astype("<f4")
        importance.tofile(IMPORTANCE)
        need = [*NEED_IMPORTANCE, *(REFUSED_IN_FILES if program.endswith(".mjs") else [])]
        checks = [(name, None) for name in NUMBERS if name not in need]
        checks += [(name, importance) for name in WITH_IMPORTANCE]
        if what == "unusual":
            checks = [(name, given) for name, given in checks if name not in ORDINARY_ONLY]
        sources = [source] * len(checks)
        for at, (name, given) in enumerate(checks if program.endswith(".mjs") else []):
            # The package rejects each row that llama-quantize rejects.
            rows, valid = source.reshape(-1, ROW), accepts(name, source, given)
            sources[at] = np.ascontiguousarray(rows[valid])
            sources[at].tofile(part("source", at))
            rows[~valid].tofile(part("rejected", at))
        for (name, given), source, found in zip(checks, sources, blocks_of(checks), strict=True):
            expected, _ = theirs(name, source, given)
            differing = int((found.reshape(expected.shape) != expected).any(axis=1).sum())
            label = f"{name} of {what} weights" + ("" if given is None else ", with importance")
            results.append({"what": label, "error": f"{differing} of {len(expected)} blocks have other bytes" if differing else None})
        for at, (name, given) in enumerate(checks if program.endswith(".mjs") else []):
            with open(part("accepted", at)) as file:
                accepted = json.load(file)
            label = f"{name} of {what} weights that llama-quantize rejects" + ("" if given is None else ", with importance")
            results.append({"what": label, "error": f"the package accepts rows {accepted}" if accepted else None})
    return results


def measure(megabytes, rounds, names):
    random = np.random.default_rng(SEED)
    source = (random.standard_normal(megabytes * 2**18 // ROW * ROW) * 0.02).astype("<f4")
    source.tofile(SOURCE)
    ones = np.ones(ROW, "<f4")
    ones.tofile(IMPORTANCE)
    for name in names or NUMBERS:
        importance = ones if name in NEED_IMPORTANCE else None
        times = {"ours": [], "theirs": []}
        for _ in range(rounds):
            times["theirs"].append(theirs(name, source, importance)[1])
            # The second round of a process has its pages.
            times["ours"].append(ours(name, importance, 2)[1][1])
        yield {"type": name, "bytes": source.nbytes, **times}


if mode == "compare":
    print(json.dumps(compare(int(sys.argv[5]))))
else:
    for row in measure(int(sys.argv[5]), int(sys.argv[6]), sys.argv[7:]):
        print(json.dumps(row), flush=True)
