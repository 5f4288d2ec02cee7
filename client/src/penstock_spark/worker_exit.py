"""Spark hangs up on its Python workers: after an idle minute, and when a task is no longer wanted.

Over a Unix socket, which session.py turns on, a worker's last flush then fails at once, and Spark's daemon prints a
BrokenPipeError that says nothing of the job. Here such a worker ends without a word. Tasks are forked from our daemon;
what plans a query from Spark's own, whatever `spark.python.daemon.module` says, and there `hush` does it.
"""

from collections.abc import Callable
from typing import Any, Final

HUNG_UP: Final = 1
"""What a worker's loop returns. Not 0: the daemon would wait for the next task on a socket that is closed."""


def without_complaint(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark's loop of a worker, for which nobody reads what it could not send."""

    def run(*arguments: Any) -> int:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return HUNG_UP

    return run


def hush(main_module: Any) -> None:
    """If this process is a worker of Spark's own daemon, let it end as quietly as those of ours."""
    spec = getattr(main_module, "__spec__", None)
    if spec is not None and spec.name == "pyspark.daemon":
        main_module.worker = without_complaint(main_module.worker)
