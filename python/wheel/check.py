#!/usr/bin/env python3
"""Checks a wheel before it is given away: its tag, its size, what its libraries need, the licences of what is in it."""

import io
import json
import platform
import re
import sys
import zipfile
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

MOST_BYTES = 5_000_000
# Of every Linux that a manylinux wheel may be installed on.
SYSTEM = re.compile(r"lib(c\.so\.6|m\.so\.6|z\.so\.1|gcc_s\.so\.1|stdc\+\+\.so\.6)|ld-linux-.*")
COMPILED_IN = ("nanobind", "nlohmann-json")


def needed(library: bytes) -> set[str]:
    """The libraries that it asks the loader for."""
    dynamic = ELFFile(io.BytesIO(library)).get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    return {tag.needed for tag in dynamic.iter_tags("DT_NEEDED")}


def faults(path: Path) -> list[str]:
    found = []
    if not re.fullmatch(rf"leat-[0-9.]+-cp311-abi3-manylinux_2_34_{platform.machine()}\.whl", path.name):
        found.append(f"its name is not one of CPython 3.11 and later, on Linux with glibc 2.34: {path.name}")
    if path.stat().st_size > MOST_BYTES:
        found.append(f"it has {path.stat().st_size} bytes; at most {MOST_BYTES}")

    with zipfile.ZipFile(path) as wheel:
        libraries = {Path(name).name: wheel.read(name) for name in wheel.namelist() if ".so" in Path(name).suffixes}
        materials = [json.loads(wheel.read(name)) for name in wheel.namelist() if name.endswith("/auditwheel.cdx.json")]
        licensed = {name.split("/")[2] for name in wheel.namelist() if ".dist-info/licenses/" in name} - {""}
    needs = set().union(*map(needed, libraries.values()))
    bundled = libraries.keys() - {"_core.abi3.so"}
    found += [f"it needs {name}, which is not in it" for name in sorted(needs - bundled) if not SYSTEM.fullmatch(name)]
    found += [f"{name} is in it, but nothing needs it" for name in sorted(bundled - needs)]

    owed = {*COMPILED_IN, *(name.split("-")[0] for name in bundled)}  # libjpeg-f8d3c3f7.so.62.3.0 is of libjpeg62-turbo
    if b"cudart" in libraries["_core.abi3.so"]:
        owed.add("cuda-runtime")
    lacking = [part for part in sorted(owed) if not any(one.startswith(part) for one in licensed)]
    found += [f"the licence of {part} is missing" for part in lacking]

    versions = [f"{part['name']} {part['version']}" for one in materials for part in one["components"][1:]]
    print(f"{path.name}: {path.stat().st_size} bytes")
    print(f"  in it:    {', '.join(versions)}")
    print(f"  needs:    {', '.join(sorted(needs - bundled))}")
    print(f"  licences: {', '.join(sorted(licensed))}")
    return found


wrong = [f"{name}: {fault}" for name in sys.argv[1:] for fault in faults(Path(name))]
sys.exit("\n".join(wrong) or None)
