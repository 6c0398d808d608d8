"""Opens one file and reads all of it, as a user of that package does: python hostile_peer.py PATH. The exit status is 0 if the package
accepts all of it, 3 if it raises an exception, and another one if the process is killed."""

import faulthandler
import sys

faulthandler.enable(open('/dev/null', 'w'))
path = sys.argv[1]


def read_all():
    if path.endswith('.safetensors'):
        from safetensors import safe_open

        with safe_open(path, framework='np') as file:
            for name in file.keys():
                file.get_tensor(name)
        return
    import ztensor

    if hasattr(ztensor, 'verify') and not hasattr(ztensor, 'Reader'):  # 2.x
        file = ztensor.open(path)
        for tensor in file.values():
            for part in tensor.parts:
                tensor[part].tobytes()
        return
    reader = ztensor.Reader(path)
    if hasattr(reader, 'keys'):  # 1.2
        names = list(reader.keys())
    elif hasattr(reader, 'tensor_names'):  # 1.0, 1.1
        names = list(reader.tensor_names)
    else:
        names = list(reader.get_tensor_names())
    for name in names:
        value = reader.read_numpy(name) if hasattr(reader, 'read_numpy') else reader.read_tensor(name)
        getattr(value, 'sum', lambda: None)()


try:
    read_all()
except MemoryError:
    sys.exit(4)
except BaseException as error:  # a Rust panic is not an Exception
    sys.exit(5 if 'PanicException' in type(error).__name__ else 3)
