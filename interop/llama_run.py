"""Loads GGUF files with llama.cpp's library of node-llama-cpp, and decodes one token with each.

    python llama_run.py FOLDER < FILES

FOLDER has the libraries, and each line of the input is a path. Prints `RAN <path>`, or `FAILED <path>: <why>`: llama.cpp aborts for tensors
that it cannot compute with, so each file gets a separate process.
"""

import ctypes
import math
import os
import pathlib
import re
import signal
import sys
import tempfile

# An abort would start a debugger to print the stack, and wait for it.
os.environ["GGML_NO_BACKTRACE"] = "1"
# Seconds that a file may take.
LIMIT = 300

folder = pathlib.Path(sys.argv[1])


def shared(pattern, mode=ctypes.RTLD_GLOBAL):
    return [ctypes.CDLL(str(one), mode=mode) for one in sorted(folder.glob(pattern))]


base, ggml, llama = shared("libggml-base.so")[0], shared("libggml.v*.so")[0], shared("libllama.v*.so")[0]


class Opaque(ctypes.Structure):
    """Parameters whose fields stay as the library sets them. It reads as many of the bytes as its own structure has."""

    _fields_ = [("bytes", ctypes.c_uint8 * 1024)]


for name, result, arguments in [
    ("llama_model_default_params", Opaque, []),
    ("llama_context_default_params", Opaque, []),
    ("llama_model_load_from_file", ctypes.c_void_p, [ctypes.c_char_p, Opaque]),
    ("llama_init_from_model", ctypes.c_void_p, [ctypes.c_void_p, Opaque]),
    ("llama_model_get_vocab", ctypes.c_void_p, [ctypes.c_void_p]),
    ("llama_model_n_embd", ctypes.c_int32, [ctypes.c_void_p]),
    ("llama_vocab_n_tokens", ctypes.c_int32, [ctypes.c_void_p]),
    ("llama_tokenize", ctypes.c_int32, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]),
    ("llama_set_embeddings", None, [ctypes.c_void_p, ctypes.c_bool]),
    ("llama_pooling_type", ctypes.c_int, [ctypes.c_void_p]),
    ("llama_batch_get_one", Opaque, [ctypes.POINTER(ctypes.c_int32), ctypes.c_int32]),
    ("llama_decode", ctypes.c_int32, [ctypes.c_void_p, Opaque]),
    ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p, ctypes.c_int32]),
    ("llama_get_embeddings_seq", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p, ctypes.c_int32]),
    ("llama_get_embeddings_ith", ctypes.POINTER(ctypes.c_float), [ctypes.c_void_p, ctypes.c_int32]),
]:
    function = getattr(llama, name)
    function.restype, function.argtypes = result, arguments

NO_POOLING, RANK = 0, 4


def run(path):
    """Returns why a file cannot be used; None if it can."""
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    if not model:
        return "it is not loaded"
    context = llama.llama_init_from_model(model, llama.llama_context_default_params())
    if not context:
        return "it has no context"
    vocabulary = llama.llama_model_get_vocab(model)
    tokens = (ctypes.c_int32 * 64)()
    text = "the cat".encode()
    count = llama.llama_tokenize(vocabulary, text, len(text), tokens, len(tokens), True, True)
    if count < 1:
        return f"a text has {count} tokens"
    pooling = llama.llama_pooling_type(context)
    is_embedding = pooling > NO_POOLING
    llama.llama_set_embeddings(context, is_embedding)
    # An encoder needs the whole text, a decoder one token.
    error = llama.llama_decode(context, llama.llama_batch_get_one(tokens, count if is_embedding else 1))
    if error:
        return f"decoding fails: {error}"
    if is_embedding:
        numbers, size = llama.llama_get_embeddings_seq(context, 0), 1 if pooling == RANK else llama.llama_model_n_embd(model)
    else:
        numbers, size = llama.llama_get_logits_ith(context, -1), llama.llama_vocab_n_tokens(vocabulary)
    if not numbers:
        return "it returns no numbers"
    if not all(math.isfinite(numbers[at]) for at in range(size)):
        return "it returns numbers that are not finite"
    return None


def logged(log):
    """The last error that the library wrote to a file, without the place in its sources."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    found = [line for line in lines if re.search(r"error loading|GGML_ASSERT|GGML_ABORT", line)]
    return f": {re.sub('^.*[.]cpp:[0-9]+: ', '', found[-1])}" if found else ""


ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
for path in sys.stdin.read().split("\n"):
    if not path:
        continue
    sys.stdout.flush()
    reading, writing = os.pipe()
    log = tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(log.fileno(), 2)
        signal.alarm(LIMIT)
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        try:
            why = run(path)
        except BaseException as error:  # an error in this script is a failure too
            why = f"{type(error).__name__}: {error}"
        os.write(writing, (why or "").encode())
        os._exit(0 if why is None else 1)
    os.close(writing)
    with os.fdopen(reading, "rb") as messages:
        why = messages.read().decode()
    _, status = os.waitpid(child, 0)
    why = (why or f"the process ends with status {status}") + logged(log)
    log.close()
    print(f"RAN {path}" if status == 0 else f"FAILED {path}: {why}", flush=True)
