"""Empty stand-ins for the CUDA libraries that a wheel of torch links to: `python cuda_stubs.py <torch/lib> <folder>`.

The wheels on PyPI cannot be imported without some 3 GB of them, and the CPU part of torch calls none of them. Needs gcc, nm and readelf,
and `LD_LIBRARY_PATH=<folder>` afterwards.
"""

import pathlib
import re
import subprocess
import sys

CUDA = re.compile(r"^(lib)?(cu|nv|nccl|__cuda)")
libraries = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if ".so" in path.name)
folder = pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


needed, wanted_versions, plain, versioned = set(), {}, set(), {}
for path in libraries:
    needed |= set(re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-dW", path)))
    for section in output("readelf", "-VW", path).split("File: ")[1:]:
        library = section.split(maxsplit=1)[0]
        wanted_versions.setdefault(library, set()).update(re.findall(r"Name: (\S+)\s+Flags", section))
    for line in output("nm", "-D", "--undefined-only", path).splitlines():
        name, _, version = line.split()[-1].partition("@")
        if version:
            versioned.setdefault(version.strip("@"), set()).add(name)
        elif CUDA.match(name):
            plain.add(name)

missing = sorted(needed - {path.name for path in libraries})
for library in filter(CUDA.match, missing):
    versions = sorted(version for version in wanted_versions.get(library, ()) if version in versioned)
    names = {name for version in versions for name in versioned[version]}
    # Names without a version may come from any library.
    names |= plain if library.startswith("libcudart") else set()
    source, script = folder / "stub.c", folder / "stub.map"
    source.write_text("int nothing;\n" + "".join(f"long {name}(void) {{ return 0; }}\n" for name in sorted(names)))
    script.write_text("".join(f"{one} {{ global: {''.join(f'{name};' for name in sorted(versioned[one]))} }};\n" for one in versions))
    command = ["gcc", "-w", "-shared", "-fPIC", "-o", folder / library, f"-Wl,-soname,{library}", source]
    subprocess.run([*command, *([f"-Wl,--version-script={script}"] if versions else [])], check=True)
