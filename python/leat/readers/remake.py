"""What is unpickled by being made anew: datasets read their files again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leat import _core


def remake(maker: Callable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Calls ``maker``, a class or the name of a function of leat, as the pickled object was made."""
    make = getattr(_core, maker) if isinstance(maker, str) else maker
    return make(*args, **kwargs)
