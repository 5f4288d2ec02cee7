"""Series of samples over time: one hour in steps of 5 s, one day in steps of one minute. Bounded in memory.

Each series is two rings of numbers. The ring of a step that has passed without a sample holds NaN, which is returned
as None. A store (history_file.py) keeps the samples across restarts.
"""

import math
import threading
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

SERIES_MAX: Final = 2000
ENDS_MAX: Final = 5000
ENDS_KEPT: Final = 720


class Resolution(NamedTuple):
    step_ms: int
    length: int


FINE: Final = Resolution(5_000, 720)
COARSE: Final = Resolution(60_000, 1440)
RESOLUTIONS: Final = (FINE, COARSE)
WINDOWS: Final = {"15m": (FINE, 180), "1h": (FINE, 720), "24h": (COARSE, 1440)}


class Sample(NamedTuple):
    at_ms: int
    series: str
    value: float


class Store(Protocol):
    """Where samples are kept across restarts."""

    def add(self, at_ms: int, values: Mapping[str, float]) -> None: ...

    def load(self, since_ms: int) -> Iterable[Sample]: ...

    def close(self) -> None: ...


class _Ring:
    """The samples of all series at one resolution."""

    def __init__(self, resolution: Resolution) -> None:
        self._step_ms, self._count = resolution
        self._values: dict[str, array[float]] = {}
        self._written: dict[str, int] = {}
        """The step of the newest sample of each series, the oldest step first."""
        self._step = -1

    def add(self, at_ms: int, values: Mapping[str, float]) -> None:
        step = at_ms // self._step_ms
        if step < self._step:
            return
        missed = min(step - self._step, self._count) if self._step >= 0 else 0
        for samples in self._values.values():
            for each in range(step - missed + 1, step + 1):
                samples[each % self._count] = math.nan
        self._step = step
        for series, value in values.items():
            found = self._values.get(series)
            if found is None:
                if len(self._values) >= SERIES_MAX and not self._drop_one_without_samples():
                    continue
                found = self._values[series] = array("d", [math.nan]) * self._count
            found[step % self._count] = value
            self._written.pop(series, None)
            self._written[series] = step

    def times(self, count: int) -> list[int]:
        return [(self._step - count + 1 + each) * self._step_ms for each in range(count)] if self._step >= 0 else []

    def last(self, series: str, count: int) -> list[float | None]:
        samples = self._values.get(series)
        if samples is None or self._step < 0:
            return [None] * (count if self._step >= 0 else 0)
        steps = range(self._step - count + 1, self._step + 1)
        found = (samples[each % self._count] for each in steps)
        return [None if math.isnan(value) else value for value in found]

    def _drop_one_without_samples(self) -> bool:
        """Make room by removing a series that no longer exists.

        Called for every series that finds no room, thousands of times per sample in a large cluster.
        """
        series, written = next(iter(self._written.items()))
        if self._step - written < self._count:
            return False
        del self._values[series], self._written[series]
        return True


class History:
    """All series of a cluster, and the recent end offsets of partitions."""

    def __init__(self, store: Store | None = None, *, now_ms: int = 0) -> None:
        self._lock = threading.Lock()
        self._rings = {resolution: _Ring(resolution) for resolution in RESOLUTIONS}
        self._ends: dict[tuple[str, int], deque[tuple[int, int]]] = {}
        self._store = store
        for sample in store.load(now_ms - COARSE.step_ms * COARSE.length) if store is not None else ():
            self._add(sample.at_ms, {sample.series: sample.value})

    def add(self, at_ms: int, values: Mapping[str, float]) -> None:
        """Add a sample of each series. The first series are kept if there are too many."""
        with self._lock:
            self._add(at_ms, values)
        if self._store is not None:
            self._store.add(at_ms, values)

    def _add(self, at_ms: int, values: Mapping[str, float]) -> None:
        for ring in self._rings.values():
            ring.add(at_ms, values)

    def read(self, series: Sequence[str], window: str) -> tuple[int, list[int], dict[str, list[float | None]]]:
        """Return the step, the times, and the samples of each series at these times."""
        resolution, count = WINDOWS[window]
        ring = self._rings[resolution]
        with self._lock:
            return resolution.step_ms, ring.times(count), {name: ring.last(name, count) for name in series}

    def latest(self, series: str, count: int = 3) -> float | None:
        """Return the newest of the last samples."""
        with self._lock:
            found = self._rings[FINE].last(series, count)
        return next((value for value in reversed(found) if value is not None), None)

    def trend(self, series: str, count: int = 24) -> float | None:
        """Return the change per second over the last samples."""
        with self._lock:
            values = self._rings[FINE].last(series, count)
        known = [(at, value) for at, value in enumerate(values) if value is not None]
        if len(known) < 2:
            return None
        (first_at, first), (last_at, last) = known[0], known[-1]
        return (last - first) / ((last_at - first_at) * FINE.step_ms / 1000)

    def add_ends(self, at_ms: int, ends: Mapping[tuple[str, int], int]) -> None:
        """Add the end offsets of partitions, from which the age of an offset is estimated."""
        with self._lock:
            for partition, end in ends.items():
                known = self._ends.get(partition)
                if known is None:
                    if len(self._ends) >= ENDS_MAX:
                        continue
                    known = self._ends[partition] = deque(maxlen=ENDS_KEPT)
                if len(known) >= 2 and known[-1][1] == known[-2][1] == end:
                    # The log does not grow: the newest time stands for all times since.
                    known.pop()
                known.append((at_ms, end))

    def age_s(self, partition: tuple[str, int], offset: int, now_ms: int) -> float | None:
        """Estimate how long ago the record at an offset was appended; None if that was before the first sample."""
        with self._lock:
            known = list(self._ends.get(partition, ()))
        if not known or known[0][1] > offset:
            return None
        before = known[0]
        for after in known:
            if after[1] > offset:
                share = (offset - before[1]) / (after[1] - before[1])
                appended_ms = before[0] + share * (after[0] - before[0])
                return max(0.0, (now_ms - appended_ms) / 1000)
            before = after
        return 0.0

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
