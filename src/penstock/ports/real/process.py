"""Resource usage of this process, by metric name."""

import gc
import os
import resource
import time

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_BEGAN = time.time()


def settle_memory() -> None:
    """Keep the cyclic garbage collector from long pauses, once the program is loaded.

    The objects that exist now are permanent, and are not scanned again. A full collection runs only after millions of
    new objects: until then reference counts and the young generations free what is unused.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 100)


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
        usage["process_open_fds"] = len(os.listdir("/proc/self/fd"))
        with open("/proc/self/io", "rb") as io:
            rows = dict(line.split(b": ") for line in io.read().splitlines())
        usage["penstock_disk_read_bytes_total"] = int(rows[b"read_bytes"])
        usage["penstock_disk_written_bytes_total"] = int(rows[b"write_bytes"])
    except (OSError, KeyError, ValueError):
        pass
    return usage
