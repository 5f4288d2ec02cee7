"""The memory of an idle partition, of which a node may have thousands."""

import asyncio
import gc
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

from penstock_sim.disk import SimDisk, SimFile
from tests.support.stepped_clock import SteppedClock
from tests.unit.replication.test_replicas import OneNode, created

BYTES_MAX = 3400
"""With Python 3.11, new partitions take 3,100 bytes, and those that a start has opened 3,250."""
NOT_COUNTED = (SimDisk, SimFile, SteppedClock, type, ModuleType, FunctionType, BuiltinFunctionType)


def size_of(*roots: object) -> int:
    """Return the size of all objects that the roots lead to, without code, simulated files and timers."""
    seen: set[int] = set()
    found, size = [*roots], 0
    while found:
        each = found.pop()
        if id(each) not in seen and not isinstance(each, NOT_COUNTED):
            seen.add(id(each))
            size += sys.getsizeof(each)
            found += gc.get_referents(each)
    return size


async def node_sizes(count: int) -> tuple[int, int]:
    """Return the size of the partitions of a node after a write to each, and after a start and other writes."""
    node = OneNode()
    sizes: list[int] = []
    for is_restarted in (False, True):
        if is_restarted:
            node.stop()
            node.start()
            node.publish_again()
            await node.replicas.opened_at_start(lambda: None)
        else:
            node.publish(*created(count=count))
        await node.replicas.settled()
        for index in range(count):
            node.append(index=index)
        sizes.append(size_of(node.replicas, node.store))
    node.stop()
    return sizes[0], sizes[1]


def test_an_idle_partition_takes_no_more_memory_than_it_needs() -> None:
    few, many = asyncio.run(node_sizes(100)), asyncio.run(node_sizes(300))
    new, opened = ((more - less) / 200 for less, more in zip(few, many, strict=True))
    assert new < BYTES_MAX
    assert opened < BYTES_MAX
