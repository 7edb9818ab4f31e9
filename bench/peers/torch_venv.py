"""PyPI's torch in a folder of its own, with all of its libraries (5.5 GB)."""

import pathlib
import subprocess
import sys

TORCH = "torch==2.15.0" if sys.version_info >= (3, 11) else "torch==2.14.1"


class NoTorch(Exception):
    pass


def has_torch(folder):
    """Whether Python there has this torch, and numpy."""
    python = pathlib.Path(folder) / "bin" / "python3"
    program = "import importlib.metadata as m; m.version('numpy'); print('torch==' + m.version('torch'))"
    try:
        found = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return False
    return found.returncode == 0 and found.stdout.strip().split("+")[0] == TORCH


def python_with_torch(folder, log):
    """The Python of `folder`, where torch is installed if it is not there. Raises NoTorch."""
    folder = pathlib.Path(folder)
    python = folder / "bin" / "python3"
    if has_torch(folder):
        return python
    print(f"installing {TORCH} into {folder} (5.5 GB)", file=sys.stderr)
    commands = [] if python.exists() else [[sys.executable, "-m", "venv", folder]]
    commands.append([python, "-m", "pip", "install", "--disable-pip-version-check", TORCH, "numpy"])
    with open(log, "a") as out:
        for command in commands:
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
                raise NoTorch(f"torch could not be installed; see {log}")
    return python
