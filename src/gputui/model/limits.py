"""How large times and sizes of a timeline may be, so that differences and sums of them fit 64 bits.

No real capture comes near these limits; a file of a stranger may.
"""

from __future__ import annotations

import numpy as np

from gputui.model.intervals import Ns

FARTHEST_NS = 1 << 61
"""No time lies further from 0 (the year 2043, where times count from 1970)."""
LONGEST_NS = 10**16
"""No event lasts longer: 116 days."""
LARGEST_BYTES = 1 << 50
"""No copy is larger: 1 PiB."""
MOST_IN_ALL = 1 << 61
"""No column of durations or sizes sums to more: 73 years, 2 EiB."""


def summable(values: Ns, most: int) -> Ns:
    """These durations or sizes, none above ``most``, and less where they would sum to more than ``MOST_IN_ALL``."""
    if len(values) and values.max() > most:
        values = np.minimum(values, most)
    if values.sum(dtype=np.float64) > MOST_IN_ALL:
        values = np.minimum(values, MOST_IN_ALL // len(values))
    return values


def summable_ends(start: Ns, end: Ns) -> Ns:
    """The ends of events, earlier where their durations would not be ``summable``."""
    duration = end - start
    limited = summable(duration, LONGEST_NS)
    return end if limited is duration else start + limited
