#!/usr/bin/env python3
"""Adds the licences of what a repaired wheel contains beside Leat: <wheel>... in place.

auditwheel has copied libraries into the wheel, and its list of materials names the packages that they are of; what is
compiled in is named here. A licence text that this machine lacks is an error: the wheel is not to be given away."""

import json
import sys
from importlib import metadata
from pathlib import Path

from auditwheel.wheeltools import InWheel

DOCS = Path("/usr/share/doc")  # Debian's and Ubuntu's


def of_debian(package: str) -> str:
    path = DOCS / package / "copyright"
    if not path.is_file():
        sys.exit(f"licenses.py: the wheel has {package} in it, but its licence is not at {path}: install the package")
    return path.read_text(encoding="utf-8")


def of_pypi(package: str) -> str:
    """Of a package in this environment."""
    texts = [path.read_text() for path in metadata.files(package) or () if path.parent.name == "licenses"]
    return "\n".join(texts) or sys.exit(f"licenses.py: {package} has no licence text")


def texts(wheel: Path) -> dict[str, str]:
    """The licence of each part of the wheel, which lies unpacked in that folder, by the part's name."""
    found = {"nanobind": of_pypi("nanobind"), "nlohmann-json": of_debian("nlohmann-json3-dev")}
    for path in wheel.glob("*.dist-info/sboms/auditwheel.cdx.json"):
        for part in json.loads(path.read_text())["components"]:
            if part["name"] != "leat":
                found[part["name"]] = of_debian(part["name"])
    core = b"".join(path.read_bytes() for path in wheel.glob("leat/_core*.so"))
    if b"cudart" in core:
        found["cuda-runtime"] = of_pypi("nvidia-cuda-runtime-cu12")  # a toolkit's is under the same agreement
    if b"NVTX_INJECTION64_PATH" in core:
        found["nvtx"] = of_pypi("nvidia-nvtx-cu12")
    return found


def add(wheel: Path) -> None:
    with InWheel(wheel, wheel) as unpacked:  # writes RECORD anew
        (info,) = unpacked.glob("*.dist-info")
        names = ""
        for part, text in sorted(texts(unpacked).items()):
            folder = info / "licenses" / part
            folder.mkdir()
            (folder / "LICENSE").write_text(text, encoding="utf-8")
            names += f"License-File: {part}/LICENSE\n"
        before = (info / "METADATA").read_text(encoding="utf-8")
        own = "License-File: LICENSE\n"
        assert own in before
        (info / "METADATA").write_text(before.replace(own, own + names, 1), encoding="utf-8")


for name in sys.argv[1:]:
    add(Path(name))
