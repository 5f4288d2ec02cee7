"""Invariants 1-12: acknowledgements to producers and records returned to consumers."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from penstock_sim.history import FAIL, KEY_SIZE, OK, History, PartitionId, Poll, Send


def _acked(history: History) -> Iterator[tuple[Send, int, bytes]]:
    """Yield every value that was acknowledged with acks=all, with its offset."""
    for send in history.sends:
        if send.outcome == OK and send.offset >= 0 and send.acks == -1:
            for index, value in enumerate(send.values):
                yield send, send.offset + index, value


def _shown(history: History) -> Iterator[tuple[str, PartitionId, int, bytes]]:
    """Yield every record that any client received."""
    for poll in history.polls:
        for offset, value in poll.records:
            yield poll.client, poll.partition, offset, value
    for view in history.views:
        for offset, value in view.records():
            yield "the read-back", view.partition, offset, value


def _is_one_of_a_kind(value: bytes) -> bool:
    """Return whether the value is unique. Tombstones are not: many are written for one key."""
    return len(value) != KEY_SIZE


def _short(value: bytes) -> str:
    return value[:40].decode(errors="replace")


def inv_01_acknowledged_records_stay(history: History) -> Iterator[str]:
    """A record acknowledged with acks=all is readable forever at its offset."""
    for view in history.views:
        if view.partition.topic in history.tables:
            continue  # Invariant 51 covers compacted topics.
        found = dict(view.records())
        for send, offset, value in _acked(history):
            if (
                send.partition != view.partition
                or offset < view.start
                or send.partition.topic_id in history.deleted_topics
            ):
                continue
            if view.code and offset not in found:
                continue
            if found.get(offset) != value:
                instead = found.get(offset)
                what = "nothing" if instead is None else _short(instead)
                yield f"{view.partition} {offset} was acknowledged to {send.client} as {_short(value)}, has {what}"


def inv_02_one_offset_has_one_value(history: History) -> Iterator[str]:
    seen: dict[tuple[PartitionId, int], tuple[bytes, str]] = {}
    acked = ((send.client, send.partition, offset, value) for send, offset, value in _acked(history))
    for who, partition_id, offset, value in (*acked, *_shown(history)):
        before = seen.setdefault((partition_id, offset), (value, who))
        if before[0] != value:
            yield f"{partition_id} offset {offset}: {before[1]} has {_short(before[0])}, {who} has {_short(value)}"


def inv_03_what_failed_is_never_shown(history: History) -> Iterator[str]:
    # A value may be sent again in a later transaction.
    failed = {value for send in history.sends if send.outcome == FAIL for value in send.values}
    failed -= {value for send in history.sends if send.outcome != FAIL for value in send.values}
    aborted = {
        value for txn in history.txns if txn.committed is False for send in txn.sends for value in send.values
    } - {value for txn in history.txns if txn.committed is not False for send in txn.sends for value in send.values}
    for who, partition_id, offset, value in _shown(history):
        if value in failed and value not in aborted and _is_one_of_a_kind(value):
            yield f"{partition_id} offset {offset}: {who} received {_short(value)}, whose send was rejected"
    for poll in history.polls:
        for offset, value in poll.records:
            if poll.committed_only and value in aborted and _is_one_of_a_kind(value):
                yield f"{poll.partition} offset {offset}: {poll.client} received aborted {_short(value)}"
    for view in history.views:
        for offset, value in view.committed.items():
            if value in aborted and _is_one_of_a_kind(value):
                yield f"{view.partition} offset {offset} holds {_short(value)} of an aborted transaction as committed"


def inv_04_a_record_is_where_its_producer_was_told(history: History) -> Iterator[str]:
    acked = {
        value: (send.partition, send.offset + index)
        for send in history.sends
        if send.outcome == OK and send.offset >= 0 and send.txn is None
        for index, value in enumerate(send.values)
        if _is_one_of_a_kind(value)
    }
    for who, partition_id, offset, value in _shown(history):
        if value in acked and acked[value] != (partition_id, offset):
            yield f"{who} found {_short(value)} at {partition_id} {offset}, its producer received {acked[value]}"


def inv_05_idempotent_values_stand_once(history: History) -> Iterator[str]:
    once = {value for send in history.sends if send.idempotent and send.txn is None for value in send.values}
    for view in history.views:
        offsets: dict[bytes, int] = {}
        sequences: set[tuple[int, int, int]] = set()
        for batch in view.batches:
            if batch.producer_id >= 0 and batch.marker is None:
                identity = (batch.producer_id, batch.producer_epoch, batch.sequence)
                if identity in sequences:
                    yield f"{view.partition} offset {batch.base_offset}: a second batch of producer, epoch, {identity}"
                sequences.add(identity)
            for offset, value in batch.values:
                if value in once and value in offsets and _is_one_of_a_kind(value):
                    yield f"{view.partition}: {_short(value)} stands at {offsets[value]} and at {offset}"
                offsets[value] = offset


def inv_06_a_producers_sends_keep_their_order(history: History) -> Iterator[str]:
    last: dict[tuple[str, PartitionId], Send] = {}
    for send in history.sends:
        if send.outcome != OK or send.offset < 0 or send.acks == 1:
            continue
        before = last.get((send.client, send.partition))
        if before is not None and before.offset >= send.offset:
            yield (
                f"{send.partition}: {send.client} sent {_short(before.values[0])} first and got {before.offset}, "
                f"then {_short(send.values[0])} and got {send.offset}"
            )
        last[send.client, send.partition] = send


def inv_07_consumers_skip_nothing(history: History) -> Iterator[str]:
    views = {view.partition: (view, dict(view.records())) for view in history.views if not view.code}
    for poll in history.polls:
        offsets = [offset for offset, _ in poll.records]
        if any(later <= earlier for earlier, later in pairwise(offsets)):
            yield f"{poll.partition}: {poll.client} received offsets that do not increase: {offsets}"
        if offsets and offsets[0] < poll.position:
            yield f"{poll.partition}: {poll.client} fetched from {poll.position} and received {offsets[0]}"
        found = views.get(poll.partition)
        if found is None or poll.partition.topic_id in history.deleted_topics:
            continue
        is_table = poll.partition.topic in history.tables
        # Aborted records may have been compacted on some replicas and not on others.
        stands = found[0].committed if poll.committed_only or is_table else found[1]
        yield from _compared(poll, _last_of_keys(stands) if is_table else stands, found[0].start, may_go=is_table)


def _last_of_keys(records: dict[int, bytes]) -> dict[int, bytes]:
    """Return the records that no replica may have compacted away."""
    last = {value[:KEY_SIZE]: offset for offset, value in sorted(records.items())}
    return {offset: records[offset] for key, offset in last.items() if records[offset] != key}


def _compared(poll: Poll, stands: dict[int, bytes], start: int, *, may_go: bool) -> Iterator[str]:
    """Compare a poll with the final partition: below the high watermark nothing may differ, except by compaction."""
    given = dict(poll.records)
    polled = range(max(poll.position, start), poll.next_position)
    # Not offset by offset: a wrong one may be billions away.
    for offset in sorted(each for each in stands.keys() - given.keys() if each in polled and each >= poll.log_start):
        yield f"{poll.partition}: {poll.client} polled {poll.position}..{poll.next_position - 1} and missed {offset}"
    if may_go:
        return
    for offset in sorted(each for each in given.keys() - stands.keys() if each in polled):
        yield f"{poll.partition}: {poll.client} received {offset} ({_short(given[offset])}), which no longer exists"


def inv_09_nothing_beyond_the_marks_is_shown(history: History) -> Iterator[str]:
    for poll in history.polls:
        end = poll.last_stable_offset if poll.committed_only else poll.high_watermark
        if poll.records and poll.records[-1][0] >= end:
            yield f"{poll.partition}: {poll.client} received {poll.records[-1][0]}, but the high watermark was {end}"


def inv_10_marks_never_go_back(history: History) -> Iterator[str]:
    last: dict[tuple[str, PartitionId], Poll] = {}
    for poll in history.polls:
        if not poll.log_start <= poll.last_stable_offset <= poll.high_watermark:
            yield (
                f"{poll.partition}: start {poll.log_start}, stable {poll.last_stable_offset}, "
                f"mark {poll.high_watermark} are not in order"
            )
        before = last.get((poll.client, poll.partition))
        last[poll.client, poll.partition] = poll
        if before is None:
            continue
        for name in ("high_watermark", "last_stable_offset", "log_start"):
            least = getattr(before, name)
            if name != "high_watermark" and least == before.log_start and poll.leader_epoch != before.leader_epoch:
                # As in Kafka, a leader that was down when records were deleted learns it from the next leader. The last
                # stable offset of the previous leader was its log start, if an open transaction began before it.
                continue
            if getattr(poll, name) < least:
                yield (
                    f"{poll.partition}: {poll.client} saw {name} go from {least} to {getattr(poll, name)} "
                    f"at {poll.ended:.3f} s"
                )


def inv_11_listed_offsets_are_up_to_date(history: History) -> Iterator[str]:
    """Acknowledged offsets are below "latest", except from a leader that has been replaced."""
    acked: dict[PartitionId, list[tuple[float, int, int]]] = defaultdict(list)
    for send in history.sends:
        if send.outcome == OK and send.offset >= 0 and send.acks == -1:
            acked[send.partition].append((send.ended, send.leader_epoch, send.offset + len(send.values)))
    trims: dict[PartitionId, int] = {}
    for trim in history.trimmed:
        trims[trim.partition] = max(trims.get(trim.partition, 0), trim.offset)
    for listed in history.listed:
        if listed.timestamp == -1 and not listed.committed_only:
            known = (
                end for at, epoch, end in acked[listed.partition] if at < listed.began and epoch <= listed.leader_epoch
            )
            due = max(known, default=0)
            if listed.offset < due:
                yield f"{listed.partition}: latest was {listed.offset} after {due - 1} had been acknowledged"
        if listed.timestamp == -2 and listed.offset > trims.get(listed.partition, 0):
            yield f"{listed.partition}: earliest is {listed.offset}, but no client deleted that much"
