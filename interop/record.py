"""The record of what a peer wrote and read: expected.json next to its files, in the terms of the vectors' sidecars."""

import hashlib
import json
import pathlib
import sys

import numpy as np


def fingerprint(array):
    """Length and sha256 of an array's little-endian bytes."""
    raw = np.asarray(array)
    if raw.dtype.byteorder == '>' or (raw.dtype.byteorder == '=' and sys.byteorder == 'big'):
        raw = raw.astype(raw.dtype.newbyteorder('<'))
    data = raw.tobytes()
    return {'sha256': hashlib.sha256(data).hexdigest(), 'nbytes': len(data)}


class Record:
    """Collects files, and the peer's failures with their messages. `directory` is where the files go."""

    def __init__(self, directory, peer):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.peer = peer
        self.files = []
        self.cannot = []
        self.reads = []

    def path(self, name):
        return str(self.directory / name)

    def refuses(self, what, error):
        """Records a sample that the peer rejects. The same message for many samples is one row."""
        message = f'{type(error).__name__}: {error}'.splitlines()[0].replace(str(self.directory) + '/', '')
        self.notes(what, message)

    def notes(self, what, message):
        for row in self.cannot:
            if row['message'] == message:
                row['what'].append(what)
                return
        self.cannot.append({'what': [what], 'message': message})

    def attempt(self, what, work):
        """Runs it. If it fails, records the message and returns False."""
        try:
            work()
            return True
        except BaseException as error:  # a panic of a Rust peer derives from BaseException
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self.refuses(what, error)
            return False

    def cannot_read(self, what, error):
        """Records that the peer cannot read this of our files."""
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error
        message = f'{type(error).__name__}: {error}'.splitlines()[0]
        self.reads.append({'what': what, 'cannot': message})
        self.notes(f'read our {what}', message)

    def compares(self, what, found, expected):
        """Records whether the peer reads the values that we wrote."""
        self.reads.append({'what': what} if found == expected else {'what': what, 'wrong': f'{found!r:.200}, we wrote {expected!r:.200}'})

    def add(self, name, tensors, **facts):
        """A finished file. `tensors` are results of `tensor()`."""
        self.files.append({'file': name, 'tensors': tensors, **facts})

    def finish(self):
        facts = {'peer': self.peer, 'files': self.files, 'cannot': self.cannot, 'reads': self.reads}
        (self.directory / 'expected.json').write_text(json.dumps(facts, indent=1))


def tensor(name, dtype, shape, layout='dense', nnz=None, attributes=None, **components):
    """The expected values of a tensor; components by role."""
    expected = {'name': name, 'dtype': dtype, 'shape': list(shape), 'format': layout}
    expected['components'] = {role: fingerprint(value) for role, value in components.items()}
    if nnz is not None:
        expected['nnz'] = nnz
    if attributes is not None:
        expected['attributes'] = attributes
    return expected
