"""A piece of work by a Python package. Usage: python_peer.py PEER WORK PATH ROUNDS [cold]; prints one JSON object."""
import gc
import json
import os
import sys
import time

try:
    import numpy
except ImportError:  # the clients of stores do not need it
    numpy = None

peer, work, path, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
cold = "cold" in sys.argv[5:]


def sync(path):
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


def each_page(array):
    return int(array.reshape(-1).view(numpy.uint8)[::4096].sum())


def safetensors_list():
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        for name in file.keys():
            part = file.get_slice(name)
            part.get_dtype(), part.get_shape()


def safetensors_write():
    """Tensors of 10 KB."""
    from safetensors.numpy import save_file

    array = numpy.full(2560, 1.5, numpy.float32)
    save_file({f"layer.{number}.weight": array for number in range(int(sys.argv[5]))}, path)


def safetensors_touch():
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return sum(each_page(file.get_tensor(name)) for name in file.keys())


def ztensor1_list():
    import ztensor

    reader = ztensor.Reader(path)
    for name, tensor in zip(reader.keys(), reader.metadata(reader.keys())):
        name, tensor.dtype, tensor.shape


def ztensor1_touch():
    import ztensor

    reader = ztensor.Reader(path)
    return sum(each_page(reader.read_numpy(name)) for name in reader.keys())


def ztensor1_write():
    import ztensor

    tensors, size = int(sys.argv[5]), int(sys.argv[6])
    array = numpy.full(size // 4, 1.5, numpy.float32)
    with ztensor.Writer(path) as writer:
        for number in range(tensors):
            writer.add(f"layer.{number}.weight", array)


def ztensor1_write_synced():
    """The package does not sync its file: this does."""
    ztensor1_write()
    sync(path)


def ztensor2_list():
    import ztensor

    for name, tensor in ztensor.open(path).items():
        name, tensor.dtype, tensor.shape


def ztensor2_touch():
    import ztensor

    def array(tensor):
        try:
            return numpy.from_dlpack(tensor)
        except Exception:  # NumPy knows no bfloat16: its bytes are as many
            import ml_dtypes

            return numpy.frombuffer(tensor.tobytes(), ml_dtypes.bfloat16)

    return sum(each_page(array(tensor)) for tensor in ztensor.open(path).values())


def ztensor2_convert():
    import ztensor

    if os.path.exists(sys.argv[5]):
        os.remove(sys.argv[5])
    ztensor.convert(path, sys.argv[5])


def ztensor2_convert_synced():
    ztensor2_convert()
    sync(sys.argv[5])


def ztensor2_verify():
    import ztensor

    return ztensor.verify(path)


def numpy_slice():
    """The left half of each row of the first tensor, packed."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    rows, columns = header["model.embed_tokens.weight"]["shape"]
    whole = numpy.memmap(path, numpy.uint16, "c", 8 + length, (rows, columns))
    return int(numpy.ascontiguousarray(whole[:, : columns // 2])[-1, -1])


def gguf_list():
    import gguf

    for tensor in gguf.GGUFReader(path).tensors:
        tensor.name, tensor.tensor_type, tensor.shape


def gguf_dequantize():
    import gguf

    for tensor in gguf.GGUFReader(path).tensors:
        gguf.dequantize(tensor.data, tensor.tensor_type)


def ggml_dequantize():
    """The C of ggml, one thread, from a mapping into the same memory: BENCH_GGML is a library made of its ggml-quants.c."""
    import ctypes
    import gguf

    decode = ctypes.CDLL(os.environ["BENCH_GGML"]).dequantize_row_q4_K
    decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    out = None
    for tensor in gguf.GGUFReader(path).tensors:
        count = int(tensor.n_elements)
        if out is None or out.size != count:
            out = numpy.zeros(count, numpy.float32)
        decode(tensor.data.ctypes.data, out.ctypes.data, count)


def onnx_list():
    import onnx

    for tensor in onnx.load(path).graph.initializer:
        tensor.name, tensor.data_type, tensor.dims


def numpy_arrays():
    """Arrays of 1 MB with 16 random bits per element: they compress to about two thirds."""
    random = numpy.random.default_rng(7)
    rounded = lambda: random.standard_normal(250_000, numpy.float32).view(numpy.uint32) & 0xFFFF0000
    return {f"layer.{number}.weight": rounded().view(numpy.float32) for number in range(int(sys.argv[5]))}


def numpy_npz_write():
    numpy.savez(path, **numpy_arrays())


def numpy_npz_deflate():
    numpy.savez_compressed(path, **numpy_arrays())


def numpy_npz_load():
    with numpy.load(path) as file:
        return len({name: file[name] for name in file.files})


def arrow_write(rows, compression):
    import numpy
    import pyarrow
    import pyarrow.feather
    columns, random = 20, numpy.random.default_rng(0)
    count = int(sys.argv[5]) * 250_000 // columns
    arrays = [pyarrow.array(random.standard_normal(count, "float32").round(2)) for _ in range(columns)]
    table = pyarrow.table(arrays, names=[f"column{at}" for at in range(columns)])
    pyarrow.feather.write_feather(table, path, compression=compression, chunksize=rows or count)


def arrow_each(each):
    import pyarrow
    import pyarrow.feather
    for column in pyarrow.feather.read_table(path, memory_map=True).columns:
        each(column.combine_chunks().to_numpy())


def hdf5_write(**options):
    """Arrays of 10 MB, of 16 random bits each, in chunks of a MB."""
    import h5py

    with h5py.File(path, "w") as file:
        random = numpy.random.default_rng(7)
        for number in range(int(sys.argv[5]) // 10):
            rounded = random.standard_normal((2500, 1000), numpy.float32).view(numpy.uint32) & 0xFFFF0000
            file.create_dataset(f"layers/{number}/weight", data=rounded.view(numpy.float32), **options)


def hdf5_write_gzip():
    hdf5_write(chunks=(250, 1000), compression="gzip", shuffle=True)


def hdf5_each(each):
    import h5py

    with h5py.File(path, "r") as file:
        for group in file["layers"].values():
            each(group["weight"][()])


def hdf5_load():
    hdf5_each(lambda array: array)


def hdf5_touch():
    hdf5_each(each_page)


def tensorflow_write():
    """Variables of 10 MB."""
    import tensorflow as tf

    random = tf.random.Generator.from_seed(7)
    names = [f"layers/{number:03}/kernel" for number in range(int(sys.argv[5]) // 10)]
    tensors = [random.normal((2500, 1000)) for _ in names]
    tf.raw_ops.SaveV2(prefix=path.removesuffix(".index"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)


def tensorflow_load():
    import tensorflow as tf

    reader = tf.train.load_checkpoint(path.removesuffix(".index"))
    return len({name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()})


def flax_write():
    from flax import serialization

    count = int(sys.argv[5]) // 10
    tree = {f"layer_{number}": {"kernel": numpy.full((2500, 1000), number, numpy.float32)} for number in range(count)}
    with open(path, "wb") as file:
        file.write(serialization.msgpack_serialize({"step": 7, "params": tree}))


def flax_load():
    from flax import serialization

    with open(path, "rb") as file:
        serialization.msgpack_restore(file.read())


def torch_write():
    import torch

    torch.save({f"layers.{number}.weight": torch.zeros(1024, 2112) for number in range(int(sys.argv[5]))}, path)


def torch_list():
    import torch

    tensors = torch.load(path, mmap=True, weights_only=True)
    [(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()]


def torch_touch():
    import torch

    for tensor in torch.load(path, mmap=True, weights_only=True).values():
        each_page(tensor.numpy())


def in_pieces(length, read):
    """All bytes, in 16 concurrent ranges of 8 MiB."""
    from concurrent.futures import ThreadPoolExecutor

    piece = 8 << 20
    with ThreadPoolExecutor(16) as threads:
        parts = list(threads.map(lambda start: read(start, min(start + piece, length)), range(0, length, piece)))
    assert sum(map(len, parts)) == length


def obstore_load():
    import obstore
    from obstore.store import S3Store

    endpoint, key, secret = sys.argv[5:8]
    client = {"allow_http": True}
    store = S3Store("models", endpoint=endpoint, access_key_id=key, secret_access_key=secret, region="us-east-1", client_options=client)
    length = obstore.head(store, path)["size"]
    in_pieces(length, lambda start, end: obstore.get_range(store, path, start=start, end=end))


def boto3_load():
    import boto3
    from botocore.config import Config

    endpoint, key, secret = sys.argv[5:8]
    config = Config(max_pool_connections=16)
    client = boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1", config=config)
    length = client.head_object(Bucket="models", Key=path)["ContentLength"]
    in_pieces(length, lambda start, end: client.get_object(Bucket="models", Key=path, Range=f"bytes={start}-{end - 1}")["Body"].read())


works = {
    "flax 0.12": {"write": flax_write, "load": flax_load},
    "torch 2.4": {"write": torch_write, "list": torch_list, "touch": torch_touch},
    "numpy 2.4": {"npz_write": numpy_npz_write, "npz_deflate": numpy_npz_deflate, "npz_load": numpy_npz_load},
    "onnx 1.23": {"list": onnx_list},
    "pyarrow 26.0": {
        "write_lz4": lambda: arrow_write(65536, "lz4"),
        "write_plain": lambda: arrow_write(None, "uncompressed"),
        "load": lambda: arrow_each(lambda array: array),
        "touch": lambda: arrow_each(each_page),
    },
    "h5py 3.16": {"write_gzip": hdf5_write_gzip, "write_plain": hdf5_write, "load": hdf5_load, "touch": hdf5_touch},
    "tensorflow 2.21": {"write": tensorflow_write, "load": tensorflow_load},
    "obstore 0.12": {"load": obstore_load},
    "boto3 1.44": {"load": boto3_load},
    "ggml": {"dequantize": ggml_dequantize},
    "gguf 0.19": {"list": gguf_list, "dequantize": gguf_dequantize},
    "safetensors 0.8": {"list": safetensors_list, "touch": safetensors_touch, "write": safetensors_write},
    "ztensor 1.2.3": {"list": ztensor1_list, "touch": ztensor1_touch, "write": ztensor1_write, "write_synced": ztensor1_write_synced},
    "ztensor 2.1.2": {
        "list": ztensor2_list,
        "touch": ztensor2_touch,
        "verify": ztensor2_verify,
        "convert": ztensor2_convert,
        "convert_synced": ztensor2_convert_synced,
        "slice": numpy_slice,
    },
}


def forget():
    sync(path)
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


if work == "forget":
    forget()
    print("{}")
    sys.exit()
run = works[peer][work]


def memory(what):
    """Memory of this process as Linux reports it, in bytes."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what))


times = []
try:
    idle = memory("VmRSS") if sys.platform == "linux" else None
    for number in range(rounds + (0 if cold else 1)):
        gc.collect()
        if cold:
            forget()
        start = time.perf_counter()
        run()
        if cold or number > 0:
            times.append((time.perf_counter() - start) * 1e3)
    peak = None if idle is None else memory("VmHWM") - idle
    print(json.dumps({"ms": sorted(times)[len(times) // 2] if times else 0, **({} if peak is None else {"peak": peak})}))
except Exception as error:
    print(json.dumps({"note": str(error)[:200]}))
