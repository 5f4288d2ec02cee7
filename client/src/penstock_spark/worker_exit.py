"""Quiet exits of Python workers whose connection Spark has closed.

Spark closes the connection after an idle minute, and when a task is cancelled. Over a Unix socket, which session.py
enables, a worker's last flush then fails, and Spark's daemon prints a BrokenPipeError that has nothing to do with the
job. Here such a worker exits silently. Tasks are forked from our daemon; the processes that plan a query come from
Spark's daemon, regardless of `spark.python.daemon.module`, and `hush` handles those.
"""

from collections.abc import Callable
from typing import Any, Final

HUNG_UP: Final = 1
"""The return value of a worker's loop. Not 0: the daemon would wait for the next task on the closed socket."""


def without_complaint(worker: Callable[..., int]) -> Callable[..., int]:
    """Wrap Spark's worker loop so that it exits silently when its output cannot be sent."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return HUNG_UP

    return run


def hush(main_module: Any) -> None:
    """Make this process exit silently too if it is a worker of Spark's own daemon."""
    spec = getattr(main_module, "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        main_module.worker = without_complaint(main_module.worker)
