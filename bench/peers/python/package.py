"""Leat's Python package, built from this tree into an environment."""

import hashlib
import shutil
import subprocess
import sys

from facts import ROOT, capture

PARTS = ("CMakeLists.txt", "pyproject.toml", "cmake", "csp", "gpu", "feeder", "python/CMakeLists.txt",
         "python/leat", "python/src")


FLAGS = "-O2 -DNDEBUG"  # as the C++ loop is compiled, so that the compiler makes no difference


class NoPackage(Exception):
    pass


def digest():
    """Of what the package is built from, as it lies there."""
    listed = capture(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "--", *PARTS])
    found = hashlib.sha256()
    for name in sorted(listed.splitlines()):
        path = ROOT / name
        if path.is_file():
            found.update(f"{name}\0".encode() + path.read_bytes())
    return found.hexdigest()


def install(python, folder):
    """Builds the tree's package and installs it for `python`, unless the environment `folder` has it."""
    stamp, wanted = folder / "leat_package", digest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    log, wheels = folder / "leat_package.log", folder / "wheels"
    print(f"building the package leat (log: {log})", file=sys.stderr)
    shutil.rmtree(wheels, ignore_errors=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    with open(log, "w") as out:
        def call(*words):
            if subprocess.run([*pip, *words], stdout=out, stderr=subprocess.STDOUT).returncode != 0:
                raise NoPackage(f"the package cannot be built; see {log}")

        call("wheel", "--no-deps", "-w", wheels, f"--config-settings=cmake.define.CMAKE_CXX_FLAGS_RELEASE={FLAGS}",
             ROOT)
        wheel = next(wheels.glob("leat-*.whl"))
        call("install", "--force-reinstall", "--no-deps", wheel)
        call("install", wheel)  # what it needs
    stamp.write_text(wanted)
