"""Waiting for a condition, with a time limit that is reached only if it never becomes true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PATIENCE_S = 60.0
"""Far longer than any operation takes on any machine: a test that reaches it shows a hang, not a busy machine."""


def eventually(
    holds: Callable[[], bool],
    *,
    what: str = "the condition",
    seconds_max: float = PATIENCE_S,
    state: Callable[[], str] = lambda: "",
) -> None:
    """Return as soon as `holds()` is true; fail after the time limit, with the state of what was waited for."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds_max:.0f} s. {state()}"
        time.sleep(0.02)


async def eventually_here(
    holds: Callable[[], bool], *, what: str = "the condition", seconds_max: float = PATIENCE_S
) -> None:
    """Do the same without blocking the event loop that the condition depends on."""
    deadline = time.monotonic() + seconds_max
    while not holds():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds_max:.0f} s"
        await asyncio.sleep(0.005)
