"""Time and randomness of one simulated node.

The monotonic clock may run slightly fast or slow; the wall clock may jump. Only the world sees the time of the event
loop.
"""

from collections.abc import Callable
from random import Random
from uuid import UUID

from penstock.ports.clock import Timer
from penstock_sim.loop import Owner, SimLoop

WALL_START_MS = 1_700_000_000_000


class SimClock:
    def __init__(self, loop: SimLoop, owner: Owner, *, rate: float = 1.0, skew_ms: int = 0) -> None:
        self._loop = loop
        self._owner = owner
        self._rate = rate
        self.skew_ms = skew_ms

    @property
    def _now(self) -> float:
        return max(self._loop.now, self._owner.busy_until)

    def monotonic(self) -> float:
        return 1000.0 + self._now * self._rate

    def wall_ms(self) -> int:
        return WALL_START_MS + int(self._now * self._rate * 1000) + self.skew_ms

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self._loop.as_owner_at(self._owner, self._now + max(delay_s, 0.0) / self._rate, callback)


class SimEntropy:
    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._ids = Random(f"{seed}:uuid")
        self._streams: dict[str, Random] = {}

    def uuid(self) -> UUID:
        while True:
            candidate = UUID(int=self._ids.getrandbits(128), version=4)
            if candidate.bytes[0] >> 2 != 62:
                return candidate

    def stream(self, name: str) -> Random:
        if name not in self._streams:
            self._streams[name] = Random(f"{self._seed}:{name}")
        return self._streams[name]
