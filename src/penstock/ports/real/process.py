"""Resource usage of this process, by metric name."""

import gc
import os
import resource
import time
from collections.abc import Callable, Mapping
from typing import Final

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_BEGAN = time.time()
OLDEST_GENERATION: Final = 2


YOUNG_COUNT: Final = 1_000
"""New objects that start a collection. Every fifth collection includes the survivors of the last four."""
SCAN_FULL_COUNT_MIN: Final = 500
SCAN_INTERVAL_S: Final = 3600.0


def settle_memory() -> None:
    """Keep the cyclic garbage collector from long pauses, once the program is loaded.

    A collection takes up to 250 ns per object. The objects that exist now are permanent, and are not scanned again.
    """
    gc.collect()
    gc.freeze()
    # Of nothing, because a full collection waits until a quarter of what the last one kept is new.
    gc.collect()
    gc.set_threshold(YOUNG_COUNT, 3, 1)
    gc.callbacks.append(Freezer())


class Freezer:
    """Makes objects permanent that have survived a full collection, so that the next one has few objects to scan.

    Reference counts free them as before. Only a cycle that becomes garbage when it is old stays, so everything is
    scanned after `SCAN_FULL_COUNT_MIN` full collections, which is about five million objects, but at most once an
    hour: that stops the event loop for a quarter of a second per million objects.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._full_count = 0
        self._scanned_at = now()

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if phase != "stop" or info["generation"] != OLDEST_GENERATION:
            return
        self._full_count += 1
        if self._full_count < SCAN_FULL_COUNT_MIN or self._now() - self._scanned_at < SCAN_INTERVAL_S:
            gc.freeze()
            return
        self._full_count = 0
        self._scanned_at = self._now()
        # The next full collection scans everything.
        gc.unfreeze()


def process_usage() -> dict[str, float]:
    """Return the values that the system provides: outside Linux there are fewer."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    usage: dict[str, float] = {
        "process_cpu_seconds_total": spent.ru_utime + spent.ru_stime,
        "process_max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "process_start_time_seconds": _BEGAN,
    }
    try:
        with open("/proc/self/statm", "rb") as statm:
            usage["process_resident_memory_bytes"] = int(statm.read().split()[1]) * _PAGE_SIZE
        usage["process_open_fds"] = _open_file_count("/proc/self/fd")
        with open("/proc/self/io", "rb") as io:
            rows = dict(line.split(b": ") for line in io.read().splitlines())
        usage["penstock_disk_read_bytes_total"] = int(rows[b"read_bytes"])
        usage["penstock_disk_written_bytes_total"] = int(rows[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        pass
    return usage


def _open_file_count(folder: str) -> int:
    """Return how many files are open: the size of the folder since Linux 6.2, because listing thousands takes long."""
    return os.stat(folder).st_size or len(os.listdir(folder))
