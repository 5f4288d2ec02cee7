"""Constants of the nodes that a run changes, so that its short logs take the paths of long ones."""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.storage import recovery, segment
from penstock_sim.plan import Plan


@contextmanager
def changed(plan: Plan) -> Iterator[None]:
    before = segment.SMALL_SIZE_MAX, recovery.HEADERS_PER_SLICE
    segment.SMALL_SIZE_MAX, recovery.HEADERS_PER_SLICE = plan.small_size_max, plan.headers_per_slice
    try:
        yield
    finally:
        segment.SMALL_SIZE_MAX, recovery.HEADERS_PER_SLICE = before
