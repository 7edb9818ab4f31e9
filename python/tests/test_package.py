import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import leat
import leat._core
import pytest

MODULE = leat._core.__file__


def python(script: str) -> str:
    """What a new process of this Python prints."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_no_framework_and_starts_no_thread() -> None:
    script = """
import os, sys
import leat
print([name for name in ("torch", "jax", "cupy", "tensorflow") if name in sys.modules])
print(len(os.listdir("/proc/self/task")))
"""
    before = python('import numpy, os; print(len(os.listdir("/proc/self/task")))').strip()  # OpenBLAS has some
    with_leat = python(script).split()
    assert with_leat == ["[]", "1"] or with_leat == ["[]", before]


def test_the_last_device_is_the_host() -> None:
    assert leat.devices()[-1].name == "host:0"
    assert leat.cuda_status()


def test_the_version_is_that_of_the_package() -> None:
    try:
        version = importlib.metadata.version("leat")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("it was not installed, but is on PYTHONPATH")
    assert leat.__version__ == version


def test_all_names_are_there_and_sorted() -> None:
    assert sorted(leat.__all__) == list(leat.__all__)
    assert all(hasattr(leat, name) for name in leat.__all__)


@pytest.mark.skipif(shutil.which("nm") is None, reason="no nm here")
def test_the_module_exports_its_entry_alone() -> None:
    names = subprocess.run(
        ["nm", "-D", "--defined-only", "--format=just-symbols", MODULE], capture_output=True, text=True, check=True
    ).stdout.split()
    assert names == ["PyInit__core"]


@pytest.mark.skipif(shutil.which("readelf") is None, reason="no readelf here")
def test_the_module_takes_nothing_of_the_memory_that_is_reserved_for_threads_at_the_start() -> None:
    """Else it loads only where nothing else has taken that: dlopen says "cannot allocate memory in static
    TLS block", with CUDA's runtime in it always."""
    flags = subprocess.run(["readelf", "-dW", MODULE], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in flags
    assert "STATIC_TLS" not in flags


def test_with_cuda_inside_it_starts_without_a_driver() -> None:
    status = python("import leat; print(leat.cuda_status())")
    if "without the CUDA Toolkit" in status:
        pytest.skip(status)
    if leat.devices()[0].name.startswith("cuda"):
        pytest.skip("there is a driver")
    assert "driver" in status
    assert python("import leat; print([one.name for one in leat.devices()])") == "['host:0']\n"
