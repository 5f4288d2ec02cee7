"""Invariant 51: the contents of a compacted topic, compared with the acknowledged writes."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock_sim.history import FAIL, KEY_SIZE, OK, History, PartitionId, Send, View


class Write(NamedTuple):
    offset: int
    value: bytes
    is_certain: bool
    """Whether it was acknowledged at its offset and committed; otherwise its fate is unknown."""
    began: float

    @property
    def key(self) -> bytes:
        return self.value[:KEY_SIZE]

    @property
    def is_tombstone(self) -> bool:
        return len(self.value) == KEY_SIZE


def _writes(history: History) -> dict[PartitionId, dict[bytes, list[Write]]]:
    """Return the writes to compacted topics that may exist, by partition and key."""
    found: dict[PartitionId, dict[bytes, list[Write]]] = defaultdict(lambda: defaultdict(list))
    for send in history.sends:
        if send.partition.topic not in history.tables or send.outcome == FAIL:
            continue
        if send.txn is not None and send.txn.committed is False:
            continue
        for index, value in enumerate(send.values):
            offset = send.offset + index if send.offset >= 0 else -1
            write = Write(offset, value, _is_certain(send), send.began)
            found[send.partition][write.key].append(write)
    return found


def _is_certain(send: Send) -> bool:
    known = send.outcome == OK and send.offset >= 0 and send.acks == -1
    return known and (send.txn is None or send.txn.committed is True)


def inv_51_compaction_keeps_the_last_of_every_key(history: History) -> Iterator[str]:
    """Read back, a compacted topic has the last acknowledged value of each key, or one whose fate is unknown."""
    writes = _writes(history) if history.tables else {}
    for view in history.views:
        if view.code or view.partition not in writes:
            continue
        found: dict[bytes, tuple[int, bytes]] = {}
        for offset, value in sorted(view.committed.items()):
            found[value[:KEY_SIZE]] = (offset, value)
        for key, of_key in sorted(writes[view.partition].items()):
            problem = _misplaced(found.get(key), of_key)
            if problem is not None:
                yield f"{view.partition} key {key.decode()}: {problem}"


def _misplaced(found: tuple[int, bytes] | None, writes: list[Write]) -> str | None:
    newest = max((each for each in writes if each.is_certain), default=None)
    unknown = [each for each in writes if not each.is_certain]
    if found is None:
        may_be_gone = newest is None or newest.is_tombstone or any(each.is_tombstone for each in unknown)
        return (
            None
            if may_be_gone or newest is None
            else f"no record is left, but {_describe(newest)} was acknowledged last"
        )
    offset, value = found
    if newest is not None and offset < newest.offset:
        return f"offset {offset} is its last record, but {_describe(newest)} was acknowledged"
    if newest is not None and offset == newest.offset:
        return None if value == newest.value else f"found {value[:40]!r}, but {_describe(newest)} was acknowledged"
    if value not in {each.value for each in unknown}:
        return f"offset {offset} has {value[:40]!r}, which no client wrote there"
    return None


def inv_51_tombstones_stay_for_a_while(history: History) -> Iterator[str]:
    """A consumer that reads past a deletion in time sees the tombstone, unless the key was written again."""
    writes = _writes(history) if history.tables else {}
    for poll in history.polls:
        if poll.partition not in writes:
            continue
        given = {offset for offset, _ in poll.records}
        for of_key in writes[poll.partition].values():
            for gone in of_key:
                is_passed = poll.position <= gone.offset < poll.next_position and gone.offset not in given
                is_due = poll.ended - gone.began < history.tables[poll.partition.topic]
                if gone.is_tombstone and gone.is_certain and is_passed and is_due and not _followed(gone, of_key):
                    yield (
                        f"{poll.partition}: {poll.client} polled {poll.position}..{poll.next_position - 1} at "
                        f"{poll.ended:.3f} s but did not see the tombstone at {gone.offset}, "
                        f"{poll.ended - gone.began:.1f} s old"
                    )


def _followed(gone: Write, writes: Iterable[Write]) -> bool:
    return any(each.offset > gone.offset or not each.is_certain for each in writes)


def compacted_away(history: History, view: View) -> int:
    """Return how many acknowledged records of a compacted topic have been removed."""
    there = {offset for offset, _ in view.records()}
    of_partition = _writes(history).get(view.partition, {})
    return sum(each.is_certain and each.offset not in there for of_key in of_partition.values() for each in of_key)


def _describe(write: Write) -> str:
    return f"{write.value[:40]!r} at {write.offset}"
