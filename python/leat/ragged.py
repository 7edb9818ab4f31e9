"""Arrays whose entries have several lengths."""

from typing import Any, NamedTuple


class Ragged(NamedTuple):
    """For `leat.InMemory(x=leat.Ragged(values, offsets))`: sample i is `values[offsets[i]:offsets[i + 1]]`.

    `values` is not copied; `offsets` are integers, one more than there are samples, and are copied
    unless they are int64."""

    values: Any
    offsets: Any
