"""The interpreter's exit in the midst of a loop: no abort, no hang, no message."""

import os
import subprocess
import sys

import exits
import pytest

TRIES = int(os.environ.get("LEAT_EXITS", "2"))


@pytest.mark.parametrize("end", exits.ENDS)
def test_the_interpreter_exits_in_order(end: str) -> None:
    for _ in range(TRIES):
        done = subprocess.run(
            [sys.executable, "-c", exits.BEGIN + exits.ENDS[end]],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == exits.CODES.get(end, 0), done.stderr
        if end == "an exception that nobody handles leaves the loop":
            assert done.stderr.endswith("SystemError: on purpose\n")
        else:
            assert done.stderr == ""
