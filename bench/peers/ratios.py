"""Leat against another build of itself, in the same rounds."""

import statistics

NOT_SLOWER_THAN = 1.03


class Ratios:
    """Of two series of times: of their medians, and of the least of each."""

    def __init__(self, times, others):
        self.medians = statistics.median(times) / statistics.median(others)
        self.least = min(times) / min(others)

    @property
    def is_slower(self):
        """Slower is what both the medians and the least times call slower: one alone is what a
        disturbed round makes of it."""
        return min(self.medians, self.least) > NOT_SLOWER_THAN
