"""Where it all runs: the data, the peers' Python, and the facts that go with the figures."""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

from facts import capture
from programs import HERE
from rows import PILLOW_SIMD


ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def make_data(programs, folder, python, quick, peers=(), images=("jpeg", "jpeg_large")):
    """What the problems read, and, with `python`, what `peers` read instead."""
    make = programs / "make_data"
    capture([make, "tokens", folder / "tokens", "--shards", "1", "--header", "none", "--seed", "1",
             "--size", "8M" if quick else "128M"])
    capture([make, "cifar10", folder / "cifar10", "--seed", "1",
             "--size", str(3073 * (5_000 if quick else 50_000))])
    for name, samples, width, height in (("jpeg", 64 if quick else 1024, 500, 375),
                                         ("jpeg_large", 32 if quick else 256,
                                          *((500, 375) if quick else (1024, 768)))):
        if name in images:
            capture([make, "webdataset", folder / name, "--seed", "1", "--classes", "0", "--samples",
                     str(samples), "--width", str(width), "--height", str(height)])
    if python:
        capture([python, HERE / "make_shards.py", folder], env=ENVIRONMENT)
    if "litdata" in peers:
        try:
            capture([python, HERE / "make_litdata.py", folder], env=ENVIRONMENT)
        except subprocess.CalledProcessError as error:  # the peer then says what it has not
            print(f"no data for litdata: {error}", file=sys.stderr)
    for path in folder.rglob("*"):  # in memory, whatever holds it
        if path.is_file():
            path.read_bytes()


def make_environment(folder):
    """Python with what requirements.txt names, made or brought up to date; and what it has not."""
    python = folder / "bin" / "python3"
    text = (HERE / "requirements.txt").read_text()
    wanted = hashlib.sha256((text + PILLOW_SIMD + sys.version).encode()).hexdigest()
    stamp = folder / "leat_requirements"
    if stamp.exists() and stamp.read_text().split("\n")[0] == wanted:
        return python, [line for line in stamp.read_text().split("\n")[1:] if line]
    print(f"installing the peers into {folder} (some 5 GB)", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    log = open(folder / "pip.log", "w")

    def install(*what):
        return subprocess.run([python, "-m", "pip", "install", "--disable-pip-version-check",
                               *what], stdout=log, stderr=subprocess.STDOUT).returncode == 0

    missing = []
    if not install("-r", HERE / "requirements.txt"):
        for line in text.splitlines():
            if line and not line.startswith("#") and not install(line):
                missing.append(f"{line.split(';')[0]} cannot be installed; see {log.name}")
    if not install("--target", folder / "pillow-simd", "--no-deps", PILLOW_SIMD):
        missing.append(f"{PILLOW_SIMD} cannot be built; see {log.name}")
        shutil.rmtree(folder / "pillow-simd", ignore_errors=True)
    stamp.write_text("\n".join([wanted, *missing]))
    return python, missing


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")


def memory_folder(bytes_needed):
    """Where files are in memory, if there is such a place with room; else the usual one."""
    folder = "/dev/shm"
    if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > bytes_needed:
        return folder
    return None
