from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.model.ids import NodeId, Offset, TopicName
from penstock.replication.partition import Partition

ME = NodeId(1)


def partition(*, end: int, durable: int) -> tuple[Partition, Any]:
    log: Any = SimpleNamespace(
        end_offset=end,
        durable_offset=Offset(durable),
        directory=SimpleNamespace(failure=None),
        first_unstable_offset=None,
        high_watermark_moved=lambda mark: None,
    )
    return Partition(TopicName("a"), UUID(int=1), 0, ME, log), log


def test_who_waits_to_be_shown_all_is_told_when_the_sync_reaches_what_was_written() -> None:
    held, log = partition(end=3, durable=1)
    codes: list[int] = []
    assert held.wait_shown(10.0, codes.append)
    log.end_offset, log.durable_offset = 5, Offset(2)
    log.on_durable()
    assert codes == []
    log.durable_offset = Offset(3)
    log.on_durable()
    assert (codes, held.high_watermark) == ([0], 3)


def test_there_is_nothing_to_wait_for_when_all_is_shown_or_nothing_more_will_be_soon() -> None:
    codes: list[int] = []
    shown, _ = partition(end=3, durable=3)
    offline, log = partition(end=3, durable=1)
    log.directory.failure = OSError("gone")
    replicated, _ = partition(end=3, durable=1)
    replicated.isr = (ME, NodeId(2))
    assert not any(held.wait_shown(10.0, codes.append) for held in (shown, offline, replicated))
    assert codes == []
