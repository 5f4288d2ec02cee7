"""Invariants 71-74, 78 and 79 of share groups from the history of their members; share_watch.py has the others."""

from collections import defaultdict
from collections.abc import Iterator

from penstock_sim.history import FAIL, OK, Delivered, History, PartitionId, Settled, View

ACCEPT, RELEASE, REJECT = 1, 2, 3
SURE_PART = 0.9
"""The part of a lock's duration for which it lasts on every clock."""
SEEN_LATE_S = 15.0
"""How long a node may take to learn that it no longer leads a partition."""


def inv_71_an_answered_acknowledgement_is_final(history: History) -> Iterator[str]:
    """A record whose ACCEPT or REJECT was answered without an error is not delivered again in its state epoch.

    The acknowledgement of a record that is being deleted is ignored. As in Kafka, the next leader may not know of the
    deletion yet, and one that has been deposed delivers records until it knows.
    """
    if history.shares_may_repeat:
        return
    final: dict[tuple[str, PartitionId], dict[int, float]] = defaultdict(dict)
    for entry in history.settled:
        if entry.outcome == OK and entry.kind in (ACCEPT, REJECT):
            offsets = final[entry.group, entry.partition]
            trims = (each for each in history.trimmed if each.partition == entry.partition)
            deleted = max((each.offset for each in trims if each.began < entry.ended), default=0)
            for offset in range(max(entry.first, deleted), entry.last + 1):
                offsets[offset] = min(offsets.get(offset, entry.ended), entry.ended)
    altered = {each.partition: each.began for each in history.altered}
    for each in history.delivered:
        ended = final[each.group, each.partition].get(each.offset)
        if ended is None or each.began <= ended or _is_from_deposed(each, history):
            continue
        if not ended < altered.get(each.partition, 0.0) < each.ended:
            yield (
                f"group {each.group} {each.partition}: {each.client} got offset {each.offset} at {each.ended:.3f} s, "
                f"which was finished at {ended:.3f} s"
            )


def inv_72_no_record_is_lost(history: History) -> Iterator[str]:
    """At the end every record is accepted or rejected, or was delivered as often as the limit allows.

    The broker may have delivered records in responses that were lost.
    """
    if not history.shares_drained or history.shares_may_repeat:
        return
    finished: dict[PartitionId, set[int]] = defaultdict(set)
    for entry in history.settled:
        if entry.outcome != FAIL and entry.kind in (ACCEPT, REJECT) and entry.is_valid:
            finished[entry.partition].update(range(entry.first, entry.last + 1))
    for each in history.delivered:
        if each.count + history.fetches_in_doubt[each.partition] >= history.share_limit:
            finished[each.partition].add(each.offset)
    for view in history.views:
        if history.fetches_in_doubt[view.partition] >= history.share_limit or view.partition.topic in history.tables:
            continue
        # A group passes records that are deleted. As in Kafka, the next leader may not know of the deletion yet.
        first = max((each.offset for each in history.trimmed if each.partition == view.partition), default=0)
        if history.shares_start_late and view.partition not in history.grown:
            seen = (each.offset for each in history.delivered if each.partition == view.partition)
            first = max(first, min(seen, default=view.end))
        lost = [each for each in _readable(history, view) if each >= first and each not in finished[view.partition]]
        if lost:
            yield f"{view.partition}: offsets {lost[:5]} were delivered to nobody, or released and not delivered again"


def inv_72_altered_offsets_take_effect(history: History) -> Iterator[str]:
    """After offsets were altered to the start of a partition, a new member gets all of its records."""
    for altered in history.altered:
        got = {
            each.offset
            for each in history.delivered
            if each.client == altered.reader and each.partition == altered.partition and each.ended > altered.ended
        }
        for view in history.views:
            if view.partition == altered.partition:
                lost = [offset for offset in _readable(history, view) if offset not in got]
                if lost:
                    yield f"{view.partition}: offsets {lost[:5]} were not delivered after the offset was altered"


def _is_from_deposed(delivered: Delivered, history: History) -> bool:
    """Return whether another node has become the leader, which the one that delivered the record may not know yet."""
    changes = [each for each in history.leader_changes.get(str(delivered.partition), ()) if each.at <= delivered.ended]
    return bool(changes) and changes[-1].leader != delivered.broker and delivered.ended - changes[-1].at < SEEN_LATE_S


def _readable(history: History, view: View) -> list[int]:
    """Return the records for the group. The first batch of a log may contain records that were deleted."""
    found = view.committed if history.shares_are_committed else (offset for offset, _ in view.records())
    return sorted(offset for offset in found if offset >= view.start)


def inv_73_a_holder_keeps_its_lock(history: History) -> Iterator[str]:
    """An acknowledgement within the lock's duration is not rejected, unless the leader has changed since."""
    for entry in history.settled:
        if entry.outcome != FAIL or not entry.is_valid:
            continue
        if entry.ended - entry.locked_at > SURE_PART * history.share_lock_s:
            continue
        changes = history.leader_changes.get(str(entry.partition), ())
        if not any(entry.locked_at - SEEN_LATE_S < change.at <= entry.ended for change in changes):
            yield (
                f"{entry.partition}: {entry.client} held offsets {entry.first}-{entry.last} from "
                f"{entry.locked_at:.3f} s on, but they were not its own at {entry.ended:.3f} s"
            )


def inv_74_delivery_counts_begin_at_one_and_rise(history: History) -> Iterator[str]:
    """Counts stay within the limit, and a release that was answered is counted whichever node is killed."""
    released: dict[tuple[PartitionId, int], list[Settled]] = defaultdict(list)
    for entry in history.settled:
        if entry.outcome == OK and entry.kind == RELEASE:
            for offset in range(entry.first, entry.last + 1):
                released[entry.partition, offset].append(entry)
    altered = {each.partition: each.began for each in history.altered}
    for each in history.delivered:
        where = f"group {each.group} {each.partition}: offset {each.offset}"
        if not 1 <= each.count <= history.share_limit:
            yield f"{where} has delivery count {each.count}"
        if history.shares_may_repeat or each.ended > altered.get(each.partition, each.ended):
            continue
        if _is_from_deposed(each, history):
            continue
        for entry in released[each.partition, each.offset]:
            if each.began > entry.ended and each.count <= entry.count:
                yield f"{where} has delivery count {each.count} after it was released with {entry.count}"


def inv_78_an_invalid_acknowledgement_is_rejected(history: History) -> Iterator[str]:
    """Acknowledgements of records below the start offset are ignored, so only locks count that have not expired."""
    for entry in history.settled:
        if not entry.is_valid and entry.outcome == OK and entry.ended - entry.locked_at < history.share_lock_s:
            yield f"{entry.partition}: {entry.client} acknowledged offsets {entry.first}-{entry.last} twice at once"
