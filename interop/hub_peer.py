"""Calls of huggingface_hub, one for each line of JSON on standard input: [name, arguments]. Prints a line of JSON with the result."""

import json
import pathlib
import sys

import huggingface_hub
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache
from huggingface_hub.utils import WeakFileLock


def scan(folder):
    """What the cache has, as Python sees it."""
    info = scan_cache_dir(folder)
    repositories = [[one.repo_id, one.size_on_disk, one.nb_files] for one in sorted(info.repos, key=lambda one: one.repo_id)]
    return {'repositories': repositories, 'warnings': [str(warning) for warning in info.warnings]}


def missing(**arguments):
    """Whether the cache knows that a commit does not have a file."""
    return try_to_load_from_cache(**arguments) is not None and not isinstance(try_to_load_from_cache(**arguments), str)


def delete(folder, commit):
    """Deletes a commit from the cache."""
    scan_cache_dir(folder).delete_revisions(commit).execute()


def hold(lock):
    """Takes a lock, says so, and holds it until the next line."""
    with WeakFileLock(lock):
        print(json.dumps('locked'), flush=True)
        path, text = json.loads(sys.stdin.readline())
        pathlib.Path(path).write_text(text)
    return 'released'


CALLS = {
    'snapshot': snapshot_download,
    'file': hf_hub_download,
    'scan': scan,
    'missing': missing,
    'delete': delete,
    'hold': hold,
    'version': lambda: huggingface_hub.__version__,
}

for line in iter(sys.stdin.readline, ''):
    name, arguments = json.loads(line)
    try:
        answer = {'result': CALLS[name](**arguments)}
    except Exception as error:  # noqa: BLE001: the test compares its name
        answer = {'error': f'{type(error).__name__}: {error}'}
    print(json.dumps(answer), flush=True)
