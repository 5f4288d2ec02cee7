"""A limit on the memory of this process, enforced by the kernel.

DuckDB's limit covers its buffers but not the values that functions build: `repeat('x', 2000000000)` exceeded it by
2 GB. RLIMIT_DATA counts every private writable mapping, so an allocation beyond it fails and the query ends with an
error. RLIMIT_AS would also count address space that allocators reserve and never use.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
HEADROOM_BYTES: Final = 64 * MIB
"""Reserved for needs other than the query: thread stacks, connections, the out-of-memory error itself."""


_loaded_bytes: dict[str, int] = {}
"""The memory of the process when it first used an engine."""


@contextmanager
def memory_limit(engine: str, size_bytes: int) -> Iterator[None]:
    """Limit this process to this many bytes beyond its loaded engines. Does nothing if the kernel lacks the limit."""
    if not sys.platform.startswith("linux"):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    _loaded_bytes.setdefault(engine, _data_bytes())
    wanted = max(_loaded_bytes.values()) + size_bytes + HEADROOM_BYTES
    limit = min(each for each in (wanted, soft, hard) if each != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def has_grown() -> bool:
    """Return whether allocators have kept so much memory of past queries that the next one would lack it."""
    return bool(_loaded_bytes) and _data_bytes() > max(_loaded_bytes.values()) + HEADROOM_BYTES


def _data_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no memory size")
