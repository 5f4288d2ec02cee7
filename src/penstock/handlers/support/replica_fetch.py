"""Fetch by other brokers: the leader's side of replication. Hot, called by fetch.py.

The fetch offset of a follower is what it holds, which moves the high watermark and completes produce requests; then
the follower gets records up to the end of the log, or the offset where its log diverges. Only partitions that
the request names and those with news are read. Sessions are in replication/follower_sessions.py. Goes to
replication/partition.py. Refuses: per partition, stale and unknown epochs, nodes that are not replicas.
"""

import logging
from typing import TYPE_CHECKING, Final

from penstock.handlers.support.partition_errors import not_hosted
from penstock.handlers.support.reply import Parked, Parts
from penstock.model.errors import (
    UNKNOWN_SERVER_ERROR,
    Corruption,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    Refusal,
    StorageError,
)
from penstock.replication.follower_sessions import FollowerSession, SessionEntry
from penstock.replication.partition import Partition
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import TOPIC_ID_FROM, FetchRequest, PartitionAnswer, write_response

if TYPE_CHECKING:
    from penstock.handlers.fetch import FetchHandler

log = logging.getLogger(__name__)

ANSWERED_MAX: Final = 300
"""Partitions of one response: each takes about 8 microseconds here, and on the follower. The next one has the rest."""
READ_MAX: Final = 150
"""Partitions with records in one response: the follower may open a file for each, which takes 30 microseconds. The rest
of the response has room for the high watermarks of others."""
UNFIT_MAX: Final = 200
"""Partitions whose records no longer fit into a response: after so many, no more are tried."""


def handle(handler: "FetchHandler", request: FetchRequest, header: Header) -> Parts | Parked:
    now = handler.clock.monotonic()
    by_id = header.version >= TOPIC_ID_FROM
    try:
        session = handler.replicas.follower_sessions.find(request, header.client_id, by_id=by_id, now=now)
    except Refusal as refusal:
        return write_response(header.version, header.correlation_id, (), error_code=refusal.code)
    if session.waiting is not None:
        # The follower sends another request: the previous one is answered with what there is.
        session.waiting.finish()
    fetch = ReplicaFetch(handler, header, request, session)
    fetch.count()
    # A new session gets the high watermarks immediately.
    parts = fetch.attempt(final=request.session_epoch <= 0)
    if parts is not None:
        return parts
    session.marks_are_urgent = handler.followers_serve_consumers
    session.park(fetch, fetch.missing)
    session.expire_at(now + request.max_wait_ms / 1000)
    return fetch


class ReplicaFetch(Parked):
    """One fetch of a follower, from its first attempt to its response."""

    # The follower's next fetch makes the leader answer this one.
    holds_next = False
    __slots__ = ("_by_id", "_handler", "_header", "_request", "_session", "missing")

    def __init__(
        self, handler: "FetchHandler", header: Header, request: FetchRequest, session: FollowerSession
    ) -> None:
        super().__init__()
        self._handler = handler
        self._header = header
        self._request = request
        self._session = session
        self._by_id = session.by_id
        self.missing = 0

    def count(self) -> None:
        """Record the requested partitions, and the follower's progress that their offsets imply."""
        session = self._session
        node_id = session.node_id
        for requested in self._request.partitions:
            entry = session.update(requested)
            partition = self._find(entry)
            leadership = None if partition is None else partition.leadership
            if partition is None or leadership is None or requested.current_leader_epoch != partition.leader_epoch:
                session.ready[entry] = None
                continue
            progress = leadership.followers.get(node_id)
            offset = requested.offset
            if progress is None or not partition.contains_prefix(offset, requested.last_fetched_epoch):
                session.ready[entry] = None
                continue
            partition.follower_fetched(progress, offset, requested.log_start_offset, session.broker_epoch)
            if offset < partition.log.offsets.end:
                session.ready[entry] = None
            else:
                session.ready.pop(entry, None)
                session.moved[entry] = None

    def attempt(self, *, final: bool = False) -> Parts | None:
        """Return the response, or None if the follower should wait for more records."""
        request, session = self._request, self._session
        urgent = final or session.urgent or request.max_wait_ms <= 0
        if not session.ready and not urgent and request.min_bytes > 0:
            self.missing = request.min_bytes
            return None
        answers: list[PartitionAnswer] = []
        answered: list[SessionEntry] = []
        room = request.max_bytes
        size = 0
        quiet: list[SessionEntry] = []
        unfit = 0
        for entry in session.ready:
            if len(answers) >= READ_MAX or len(answers) + len(quiet) >= ANSWERED_MAX or unfit >= UNFIT_MAX:
                urgent = True  # The next fetch gets what is left.
                break
            answer = self._read(entry, room, at_least_one=size == 0)
            if answer is None:
                if entry.partition is None or entry.requested.offset >= entry.partition.log.offsets.end:
                    quiet.append(entry)
                elif size:
                    unfit += 1
                continue
            answers.append(answer)
            answered.append(entry)
            size += answer.size
            room = max(0, room - answer.size)
            if answer.error_code or answer.diverging is not None:
                urgent = True
        for entry in quiet:
            del session.ready[entry]
        if not urgent and size < request.min_bytes:
            self.missing = request.min_bytes - size
            return None
        session.urgent = False
        for entry in answered:
            del session.ready[entry]
        self._add_marks(answers, answered)
        for entry, answer in zip(answered, answers, strict=True):
            # The end of an error is news as well.
            entry.sent_mark = -1 if answer.error_code else answer.high_watermark
            entry.sent_start = answer.log_start_offset
        self._handler.context.metrics.replication_bytes_out.add(size)
        header = self._header
        parts = write_response(header.version, header.correlation_id, answers, session_id=session.id)
        if not session.id:
            session.close()
        return parts

    def _add_marks(self, answers: list[PartitionAnswer], answered: list[SessionEntry]) -> None:
        """Add high watermarks that are worth sending only because there is a response anyway."""
        session = self._session
        moved, session.moved = session.moved, {}
        has_answer = set(answered)
        room = ANSWERED_MAX - len(answers)
        for entry in moved:
            if not room:
                session.moved[entry] = None
                session.urgent = True  # The next fetch gets what is left.
                continue
            partition = entry.partition
            if partition is None or partition.leadership is None or entry in has_answer:
                continue
            start, mark = partition.log.offsets.start, partition.marks.high_watermark
            if mark != entry.sent_mark or start != entry.sent_start:
                requested = entry.requested
                answers.append(
                    PartitionAnswer(requested.topic, requested.index, 0, mark, partition.last_stable_offset, start)
                )
                answered.append(entry)
                room -= 1

    def _find(self, entry: SessionEntry) -> Partition | None:
        replicas = self._handler.replicas
        requested = entry.requested
        topic = (replicas.by_id if self._by_id else replicas.by_name).get(requested.topic)
        partition = None if topic is None else topic.partitions.get(requested.index)
        if entry.partition is not partition:
            entry.attach(partition)
        return partition

    def _read(self, entry: SessionEntry, room: int, *, at_least_one: bool) -> PartitionAnswer | None:
        """Read a partition for the follower; return None if there is nothing that it may have yet."""
        requested = entry.requested
        partition = self._find(entry)
        try:
            if partition is None:
                raise not_hosted(self._handler.context, requested.topic, requested.index, by_id=self._by_id)
            return self._read_held(entry, partition, room, at_least_one=at_least_one)
        except OffsetOutOfRange as refusal:
            answer = PartitionAnswer(requested.topic, requested.index, refusal.code)
            if partition is not None:
                # So that the follower knows where to begin.
                answer.log_start_offset = partition.log.start_offset
            return answer
        except Refusal as refusal:
            answer = PartitionAnswer(requested.topic, requested.index, refusal.code)
            if partition is not None:
                answer.current_leader = (partition.leader, partition.leader_epoch)
            return answer
        except (OSError, Corruption) as error:
            log.error(
                "replica fetch of %r-%d at %d failed: %s", requested.topic, requested.index, requested.offset, error
            )
            return PartitionAnswer(requested.topic, requested.index, StorageError.code)
        except Exception:
            log.exception("replica fetch of %r-%d at %d failed", requested.topic, requested.index, requested.offset)
            return PartitionAnswer(requested.topic, requested.index, UNKNOWN_SERVER_ERROR)

    def _read_held(
        self, entry: SessionEntry, partition: Partition, room: int, *, at_least_one: bool
    ) -> PartitionAnswer | None:
        requested = entry.requested
        partition.check_epoch(requested.current_leader_epoch)
        leadership = partition.leadership
        node_id = self._session.node_id
        progress = None if leadership is None else leadership.followers.get(node_id)
        if leadership is None or progress is None:
            raise NotLeaderOrFollower
        held = partition.log
        if requested.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(requested.offset, requested.last_fetched_epoch)
            if diverging is not None:
                mark, start = partition.marks.high_watermark, held.offsets.start
                answer = PartitionAnswer(requested.topic, requested.index, 0, mark, -1, start)
                answer.diverging = diverging
                return answer
        throttle = self._handler.replicas.leader_throttle
        held_back = throttle.holds_back(partition, node_id, is_member=leadership.is_member(node_id))
        records = None
        if not held_back:
            if requested.offset == progress.sent_offset:
                # These records were sent before and not appended: perhaps they fail their checksum.
                held.reader.recheck(requested.offset)
                progress.sent_offset = -1
            records = partition.read_for_replica(
                requested.offset, max_bytes=min(requested.max_bytes, room), at_least_one=at_least_one
            )
        if records is None:
            # The follower may have no more records now, or they do not fit: the partition stays in line.
            return None
        progress.sent_offset = requested.offset
        answer = PartitionAnswer(
            requested.topic,
            requested.index,
            0,
            partition.marks.high_watermark,
            partition.marks.last_stable_offset,
            held.offsets.start,
            records,
        )
        if throttle.watches(partition, node_id, is_member=leadership.is_member(node_id)):
            throttle.spend(answer.size)
        return answer

    # -- parked ----------------------------------------------------------------------------

    def look_again(self) -> None:
        self._attempt_again(final=False)

    def finish(self) -> None:
        self._attempt_again(final=True)

    def _attempt_again(self, *, final: bool) -> None:
        if self.parts is None and self.on_ready is not None:
            parts = self.attempt(final=final)
            if parts is None:
                self._session.park(self, self.missing)
                return
            self._leave()
            self.ready(parts)

    def abandon(self) -> None:
        super().abandon()
        self._leave()

    def _leave(self) -> None:
        if self._session.waiting is self:
            self._session.waiting = None
