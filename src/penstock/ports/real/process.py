"""What the operating system says of this process, by the names of the metrics that it is shown as."""

import gc
import os
import resource
import time

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_BEGAN = time.time()


def settle_memory() -> None:
    """Keep the cyclic garbage collector from long pauses, once the program is loaded.

    What is there by now stays for good, and is not looked at again. A full collection follows only on millions of
    new objects: until then reference counts and the young generations find what is gone.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(2_000, 10, 100)


def process_usage() -> dict[str, float]:
    """What can be had: outside Linux there is less."""
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
