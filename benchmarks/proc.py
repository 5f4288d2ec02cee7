"""CPU time and memory of a server, from the operating system."""

from __future__ import annotations

import time
from pathlib import Path

_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of Linux


def cpu_seconds(pid: int) -> float:
    """Return the user and system time of all threads of a process, also of threads that have ended.

    The CPU clock of a process counts nanoseconds, /proc/PID/stat hundredths of a second: 4 % of many measurements.
    """
    return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)  # what clock_getcpuclockid(3) returns


def proportional_memory_mb(pid: int) -> float:
    """Return the resident memory, where a page that n processes share counts as 1/n of a page in each."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


def memory_mb(pid: int) -> float:
    """Return the resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
