"""A peer reads the files that we wrote, value by value."""

import json
import pathlib

from record import fingerprint


def read_ours(record, directory, format, opening, read, names):
    """Records which tensors the peer reads correctly, reads wrongly, and cannot read.

    `opening(path)` returns a reader, `names(reader)` its tensors' names, and `read(reader, tensor)` the shape and the
    arrays by role of one of them.
    """
    directory = pathlib.Path(directory)
    for file in json.loads((directory / 'ours.json').read_text())['files']:
        if file['format'] != format:
            continue
        name = file['file']
        try:
            reader = opening(str(directory / name))
            found = sorted(names(reader))
        except BaseException as error:
            record.cannot_read(name, error)
            continue
        record.compares(f'{name}: names', found, sorted(tensor['name'] for tensor in file['tensors']))
        for tensor in file['tensors']:
            what = f'{name}: {tensor["name"][:40]}'
            try:
                shape, arrays = read(reader, tensor)
                prints = {role: fingerprint(array) for role, array in arrays.items()}
            except BaseException as error:
                record.cannot_read(what, error)
                continue
            record.compares(what, (list(shape), prints), (tensor['shape'], tensor['components']))
