"""Stress for every Python process with this directory on PYTHONPATH: the tests, and the nodes that they start.

PENSTOCK_STRESS_SOCKET_BYTES  the size of the send and receive buffers of sockets
PENSTOCK_STRESS_SYNC_MS       the delay added to every sync of a file or directory

`make flaky` sets them. Only cheap parts of the standard library are imported here.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_SOCKET_BYTES = int(os.environ.get("PENSTOCK_STRESS_SOCKET_BYTES", "0"))
_SYNC_S = int(os.environ.get("PENSTOCK_STRESS_SYNC_MS", "0")) / 1000


def _size_buffers(size: int) -> None:
    create = socket.socket.__init__

    def sized(self: socket.socket, *words: Any, **named: Any) -> None:
        create(self, *words, **named)
        if self.family in (socket.AF_INET, socket.AF_INET6):
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                self.setsockopt(socket.SOL_SOCKET, option, size)

    socket.socket.__init__ = sized  # type: ignore[method-assign]


def _slow_syncs(seconds: float) -> None:
    def slowed(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def run(file: Any) -> None:
            time.sleep(seconds)
            sync(file)

        return run

    for name in ("fsync", "fdatasync"):
        setattr(os, name, slowed(getattr(os, name)))
    # The kernel's asynchronous syncs cannot be delayed from here, so the node does not use them.
    sys.meta_path.insert(0, _WithoutRing())


class _WithoutRing(importlib.abc.MetaPathFinder):
    """An import hook that disables io_uring."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name != "penstock.ports.real.ring":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def without_ring(module: Any) -> None:
            execute(module)
            module.Ring.open = classmethod(lambda cls, loop, instead: None)

        spec.loader.exec_module = without_ring  # type: ignore[method-assign]
        return spec


if _SOCKET_BYTES:
    _size_buffers(_SOCKET_BYTES)
if _SYNC_S:
    _slow_syncs(_SYNC_S)
