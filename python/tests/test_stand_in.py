"""That the module on the software CUDA runtime is one, and what its controls do."""

from typing import Any

import leat
import pytest

pytestmark = pytest.mark.stand_in


def test_it_has_two_devices(stand_in: Any) -> None:
    assert [device.name for device in leat.devices()] == ["cuda:0", "cuda:1", "host:0"]
    stand_in.set_devices(1)
    assert [device.name for device in leat.devices()] == ["cuda:0", "host:0"]


def test_a_gate_holds_a_stream_until_it_is_opened(stand_in: Any) -> None:
    held, other = stand_in.stream(), stand_in.stream()
    assert stand_in.streams() == [held, other]
    with stand_in.Gate(held):
        assert not stand_in.is_done(held)
        assert stand_in.is_done(other)
    stand_in.synchronize(held)
    assert stand_in.is_done(held)
    stand_in.destroy(held)
    stand_in.destroy(other)
