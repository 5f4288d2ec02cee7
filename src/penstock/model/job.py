"""Long work as a generator that stops at slice boundaries.

A job yields None where other work may run, or a function without arguments: a call into a C library that
releases the interpreter lock and may take long. The driver sends back that function's result. Between
two yields a job may do at most about a millisecond of work, whatever its input. scheduling/scheduler.py
drives jobs; `finish` runs one without interruption where no client is waiting.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Step = Callable[[], Any] | None
Job = Generator[Step, Any, T]


def first_slice(job: Job[T]) -> T | None:
    """Return the result of a job that ends in its first slice. A longer job is closed, and the result is None."""
    try:
        next(job)
    except StopIteration as end:
        value: T = end.value
        return value
    job.close()
    return None


def finish(job: Job[T]) -> T:
    """Run a job to its end without interruption: for tools, tests, and internal work of this node."""
    result: Any = None
    while True:
        try:
            step = job.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        result = None if step is None else step()
