"""Invariants 36-42: transactions are atomic, fenced, decided once, and finished at the end."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from penstock_sim.history import OK, History, PartitionId, Send, Txn


def _committed_values(history: History) -> tuple[Counter[bytes], bool]:
    """Return the committed values, and whether every partition could be read to its end."""
    last = {view.partition: view for view in history.views}
    found = Counter(value for view in last.values() for value in view.committed.values())
    return found, all(view.code == 0 for view in last.values())


def inv_36_transactions_are_whole(history: History) -> Iterator[str]:
    if not history.views:
        return
    found, complete = _committed_values(history)
    starts = {view.partition: view.start for view in history.views}
    if not complete:
        return
    # A value may be sent again in a later transaction if the first was aborted.
    for txn in history.txns:
        lasting = (send for send in txn.sends if send.partition.topic not in history.tables)
        values = [value for send in lasting if not _trimmed(send, starts) for value in send.values]
        others = {
            value
            for other in history.txns
            if other is not txn and other.committed is not False
            for send in other.sends
            for value in send.values
        }
        own = [value for value in values if value not in others]
        present = [value for value in own if found[value]]
        if txn.committed is True and len(present) < len(own):
            missing = next(value for value in own if not found[value])
            yield f"{_name(txn)} was committed but {missing[:40]!r} is missing"
        if txn.committed is None and present and len(present) < len(own):
            yield f"{_name(txn)} is torn: {len(present)} of {len(own)} values exist"


def _trimmed(send: Send, starts: dict[PartitionId, int]) -> bool:
    """Return whether the records may have been deleted; the offset of an unanswered send is unknown."""
    start = starts.get(send.partition, 0)
    return start > 0 and send.offset < start


def inv_38_each_input_is_processed_once(history: History) -> Iterator[str]:
    """Read, transform, write: every value is written once, and all inputs up to the committed offset are processed."""
    if not history.views:
        return
    found, complete = _committed_values(history)
    if not complete:
        return
    made = {value for txn in history.txns if txn.offsets for send in txn.sends for value in send.values}
    for value in sorted(made):
        if found[value] > 1:
            yield f"{value[:40]!r} was written {found[value]} times by committed transactions"
    groups = {txn.group for txn in history.txns if txn.offsets}
    views = {view.partition: view for view in history.views}
    final = {(each.group, each.partition): each.offset for each in history.fetched_offsets if each.group in groups}
    for (group, partition_id), offset in final.items():
        if partition_id in views:
            for at, value in views[partition_id].committed.items():
                if at < offset and not found[b"out:" + value]:
                    yield f"group {group} is at {offset} of {partition_id}, {value[:40]!r} at {at} was not processed"


def inv_39_a_fenced_producer_writes_nothing(history: History) -> Iterator[str]:
    for init in history.inits:
        for txn in history.txns:
            same = (txn.producer_id, txn.epoch) == (init.producer_id, init.epoch)
            if txn.transactional_id != init.transactional_id or txn.began > init.began or same:
                continue
            if txn.outcome == OK and txn.wants_commit and txn.end_began > init.ended:
                yield f"{_name(txn)} was committed after {init.client} had taken over the id at {init.ended:.3f} s"
            for send in txn.sends:
                if send.outcome == OK and send.began > init.ended:
                    yield f"{_name(txn)} wrote {send.values[0][:40]!r} after {init.client} had taken over the id"


def inv_41_no_transaction_hangs(history: History) -> Iterator[str]:
    for view in history.views:
        if not view.code and view.last_stable_offset != view.end:
            yield f"{view.partition}: the last stable offset is {view.last_stable_offset}, the log ends at {view.end}"


def inv_42_a_transaction_is_decided_once(history: History) -> Iterator[str]:
    for view in history.views:
        markers: dict[tuple[int, int], set[bool]] = defaultdict(set)
        for batch in view.batches:
            if batch.marker is not None:
                markers[batch.producer_id, batch.producer_epoch].add(batch.marker)
        for (producer_id, epoch), kinds in markers.items():
            if len(kinds) > 1:
                yield f"{view.partition}: producer {producer_id} epoch {epoch} is committed and aborted"


def _name(txn: Txn) -> str:
    return f"transaction {txn.transactional_id} ({txn.producer_id}, {txn.epoch}) of {txn.client}"
