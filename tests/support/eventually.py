"""Looking again until something holds, for answers that a broker may give a moment late."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], *, seconds_max: float = 10.0) -> None:
    """Return as soon as `holds()` is true; fail if it is not within the time given."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.02)
