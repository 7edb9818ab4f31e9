"""Deadlines: medians of 20 tries, each try under ten times that."""

import statistics
from collections.abc import Callable

TRIES = 20


def within(seconds: float, one_try: Callable[[], float]) -> None:
    """Checks that the median of what ``one_try`` returns, in seconds, is below ``seconds``."""
    took = [one_try() for _ in range(TRIES)]
    assert max(took) < 10 * seconds, took
    assert statistics.median(took) < seconds, took
