import subprocess
import sys

import leat


def test_import_loads_no_framework_and_starts_no_thread() -> None:
    script = """
import sys, os
import leat
loaded = [name for name in ("torch", "jax", "cupy", "tensorflow") if name in sys.modules]
assert not loaded, loaded
assert len(os.listdir("/proc/self/task")) == 1
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_last_device_is_the_host() -> None:
    assert leat.devices()[-1].name == "host:0"
    assert leat.cuda_status()
