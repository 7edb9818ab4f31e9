"""Marks of tests:

stand_in  runs on the module that is linked with a software CUDA runtime. LEAT_TEST_STAND_IN names the
          folder that has it; then these tests run, otherwise all others.
gpu       needs a real GPU; skipped where there is none.
"""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest

STAND_IN = os.environ.get("LEAT_TEST_STAND_IN")
if STAND_IN:
    sys.path.insert(0, STAND_IN)

# A shell's background commands ignore Ctrl-C; Python then does, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

import leat  # noqa: E402
from samples import make_feed  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "stand_in: runs on a software CUDA runtime")
    config.addinivalue_line("markers", "gpu: needs a GPU")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if bool(item.get_closest_marker("stand_in")) != bool(STAND_IN)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
    if not leat.devices()[0].name.startswith("cuda"):
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason=leat.cuda_status()))


@pytest.fixture
def x() -> leat.Tensor:
    """Of the first batch of make_feed()."""
    tensor: leat.Tensor = next(iter(make_feed()))["x"]
    return tensor


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """What controls the software CUDA runtime: two devices, as in a process of its own. A test leaves
    nothing behind, copies only what is pinned, and calls CUDA in no host function."""
    from leat._core import _stand_in as controls  # type: ignore[attr-defined]

    controls.shake_threads()
    yield controls
    gc.collect()
    controls.wait_for_destroyed_streams()
    assert not any(controls.live().values()), f"left behind: {controls.live()}"
    assert controls.pageable_copies() == 0
    assert controls.calls_in_host_functions() == 0
    controls.reset()
