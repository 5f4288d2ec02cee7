"""Fetch by other brokers: the leader's side of replication. Hot, called by fetch.py.

The fetch offset of a follower is what it holds, which moves the high watermark and completes produce requests; then
the follower gets records up to the end of the log, or the offset where its log diverges. Only partitions that
the request names and those with news are read. Sessions are in replication/feed.py. Goes to
replication/partition.py. Refuses: per partition, stale and unknown epochs, nodes that are not replicas.
"""

import logging
from typing import TYPE_CHECKING

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
from penstock.replication.feed import Fed, Feed
from penstock.replication.partition import Partition
from penstock.wire.frame import Header
from penstock.wire.hot.fetch import TOPIC_ID_FROM, FetchRequest, PartitionAnswer, write_response

if TYPE_CHECKING:
    from penstock.handlers.fetch import FetchHandler

log = logging.getLogger(__name__)


def handle(handler: "FetchHandler", request: FetchRequest, header: Header) -> Parts | Parked:
    now = handler.clock.monotonic()
    by_id = header.version >= TOPIC_ID_FROM
    try:
        feed = handler.replicas.feeds.find(request, header.client_id, by_id=by_id, now=now)
    except Refusal as refusal:
        return write_response(header.version, header.correlation_id, (), error_code=refusal.code)
    if feed.waiting is not None:
        # The follower sends another request: the previous one is answered with what there is.
        feed.waiting.finish()
    fetch = ReplicaFetch(handler, header, request, feed)
    fetch.count()
    # A new session gets the high watermarks immediately.
    parts = fetch.attempt(final=request.session_epoch <= 0)
    if parts is not None:
        return parts
    feed.marks_are_urgent = handler.followers_serve_consumers
    feed.park(fetch, fetch.missing)
    feed.expire_at(now + request.max_wait_ms / 1000)
    return fetch


class ReplicaFetch(Parked):
    """One fetch of a follower, from its first attempt to its response."""

    # The follower's next fetch makes the leader answer this one.
    holds_next = False
    __slots__ = ("_by_id", "_feed", "_handler", "_header", "_request", "missing")

    def __init__(self, handler: "FetchHandler", header: Header, request: FetchRequest, feed: Feed) -> None:
        super().__init__()
        self._handler = handler
        self._header = header
        self._request = request
        self._feed = feed
        self._by_id = feed.by_id
        self.missing = 0

    def count(self) -> None:
        """Record the requested partitions, and the follower's progress that their offsets imply."""
        feed = self._feed
        node_id = feed.node_id
        for requested in self._request.partitions:
            fed = feed.take(requested)
            partition = self._find(fed)
            lead = None if partition is None else partition.lead
            if partition is None or lead is None or requested.current_leader_epoch != partition.leader_epoch:
                feed.ready[fed] = None
                continue
            progress = lead.followers.get(node_id)
            offset = requested.offset
            if progress is None or not partition.holds_prefix(offset, requested.last_fetched_epoch):
                feed.ready[fed] = None
                continue
            partition.follower_fetched(progress, offset, requested.log_start_offset, feed.broker_epoch)
            if offset < partition.log.offsets.end:
                feed.ready[fed] = None
            else:
                feed.ready.pop(fed, None)
                feed.moved[fed] = None

    def attempt(self, *, final: bool = False) -> Parts | None:
        """Return the response, or None if the follower should wait for more records."""
        request, feed = self._request, self._feed
        urgent = final or feed.urgent or request.max_wait_ms <= 0
        if not feed.ready and not urgent and request.min_bytes > 0:
            self.missing = request.min_bytes
            return None
        answers: list[PartitionAnswer] = []
        answered: list[Fed] = []
        room = request.max_bytes
        size = 0
        quiet: list[Fed] = []
        for fed in feed.ready:
            answer = self._read(fed, room, at_least_one=size == 0)
            if answer is None:
                if fed.partition is None or fed.asked.offset >= fed.partition.log.offsets.end:
                    quiet.append(fed)
                continue
            answers.append(answer)
            answered.append(fed)
            size += answer.size
            room = max(0, room - answer.size)
            if answer.error_code or answer.diverging is not None:
                urgent = True
        for fed in quiet:
            del feed.ready[fed]
        if not urgent and size < request.min_bytes:
            self.missing = request.min_bytes - size
            return None
        feed.urgent = False
        for fed in answered:
            del feed.ready[fed]
        self._add_marks(answers, answered)
        for fed, answer in zip(answered, answers, strict=True):
            # The end of an error is news as well.
            fed.sent_mark = -1 if answer.error_code else answer.high_watermark
            fed.sent_start = answer.log_start_offset
        self._handler.context.metrics.replication_bytes_out.add(size)
        header = self._header
        parts = write_response(header.version, header.correlation_id, answers, session_id=feed.id)
        if not feed.id:
            feed.close()
        return parts

    def _add_marks(self, answers: list[PartitionAnswer], answered: list[Fed]) -> None:
        """Add high watermarks that are worth sending only because there is a response anyway."""
        moved, self._feed.moved = self._feed.moved, {}
        for fed in moved:
            partition = fed.partition
            if partition is None or partition.lead is None or fed in answered:
                continue
            start, mark = partition.log.offsets.start, partition.marks.high_watermark
            if mark != fed.sent_mark or start != fed.sent_start:
                requested = fed.asked
                answers.append(
                    PartitionAnswer(requested.topic, requested.index, 0, mark, partition.last_stable_offset, start)
                )
                answered.append(fed)

    def _find(self, fed: Fed) -> Partition | None:
        replicas = self._handler.replicas
        requested = fed.asked
        topic = (replicas.by_id if self._by_id else replicas.by_name).get(requested.topic)
        partition = None if topic is None else topic.partitions.get(requested.index)
        if fed.partition is not partition:
            fed.join(partition)
        return partition

    def _read(self, fed: Fed, room: int, *, at_least_one: bool) -> PartitionAnswer | None:
        """Read a partition for the follower; return None if there is nothing that it may have yet."""
        requested = fed.asked
        partition = self._find(fed)
        try:
            if partition is None:
                raise not_hosted(self._handler.context, requested.topic, requested.index, by_id=self._by_id)
            return self._read_held(fed, partition, room, at_least_one=at_least_one)
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

    def _read_held(self, fed: Fed, partition: Partition, room: int, *, at_least_one: bool) -> PartitionAnswer | None:
        requested = fed.asked
        partition.check_epoch(requested.current_leader_epoch)
        lead = partition.lead
        node_id = self._feed.node_id
        progress = None if lead is None else lead.followers.get(node_id)
        if lead is None or progress is None:
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
        held_back = throttle.holds_back(partition, node_id, is_member=lead.is_member(node_id))
        records = None
        if not held_back:
            if requested.offset == progress.sent_offset:
                # These records were sent before and not appended: perhaps they fail their checksum.
                held.reader.distrust(requested.offset)
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
        if throttle.watches(partition, node_id, is_member=lead.is_member(node_id)):
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
                self._feed.park(self, self.missing)
                return
            self._leave()
            self.ready(parts)

    def abandon(self) -> None:
        super().abandon()
        self._leave()

    def _leave(self) -> None:
        if self._feed.waiting is self:
            self._feed.waiting = None
