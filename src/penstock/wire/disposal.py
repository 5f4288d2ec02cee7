"""Disposal of large decoded bodies, in slices.

When the last reference to a request with a hundred thousand entries is dropped, the interpreter frees all of them
before it does anything else, which takes tens of milliseconds. The jobs of this module (model/job.py) free them a few
at a time. They work only if nothing else refers to the body.
"""

from typing import Any, Final

from penstock.model.job import Job
from penstock.wire.schema import cached, shape_of

FREED_PER_SLICE: Final = 2_000


def disposing(body: Any) -> Job[None]:
    """Free a decoded request or response."""
    held = [body]
    del body
    return disposing_all(held)


def disposing_all(held: list[Any]) -> Job[None]:
    """Empty a list of decoded structures or plain values, and free what they contain."""
    left = FREED_PER_SLICE
    while held:
        # In a function, so that no variable of this frame keeps what was taken apart.
        _take_apart(held)
        left -= 1
        if not left:
            left = FREED_PER_SLICE
            yield None


def _take_apart(held: list[Any]) -> None:
    """Remove the last element of the list, and add the arrays and structures that it refers to."""
    last = held.pop()
    for name in _nested_fields(type(last)):
        value = getattr(last, name)
        if type(value) is tuple:
            held.extend(value)
        elif value is not None:
            held.append(value)


@cached
def _nested_fields(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields that hold arrays or structures; none for a plain value."""
    if not hasattr(kind, "__flexible__"):
        return ()
    shape = shape_of(kind)
    return tuple(field.name for field in (*shape.plain, *shape.tagged) if field.repeated or field.entity is not None)
