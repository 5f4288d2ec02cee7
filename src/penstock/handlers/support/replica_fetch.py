"""Fetch by other brokers: the leader's side of replication. Hot, called by fetch.py.

What a follower asks for first counts as what it holds, which moves marks and wakes producers; then
it is answered up to the end of the log, or told where its log parts from this one. Only partitions that
the request names and those with news are looked at. Sessions in replication/feed.py. Goes to
replication/partition.py. Refuses: per partition, stale and unknown epochs, replicas that are none.
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
        # The follower has more to ask: what it asked before is answered with what there is.
        feed.waiting.finish()
    fetch = ReplicaFetch(handler, header, request, feed)
    fetch.count()
    # A new session is told the marks at once.
    parts = fetch.attempt(final=request.session_epoch <= 0)
    if parts is not None:
        return parts
    feed.marks_are_urgent = handler.followers_serve_consumers
    feed.park(fetch, fetch.missing)
    feed.expire_at(now + request.max_wait_ms / 1000)
    return fetch


class ReplicaFetch(Parked):
    """One fetch of a follower, from its first attempt to its answer."""

    # The follower's next fetch tells the leader to answer this one.
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
        """Take what the request asks for, and what that says about its sender."""
        feed = self._feed
        node_id = feed.node_id
        for asked in self._request.partitions:
            fed = feed.take(asked)
            partition = self._find(fed)
            lead = None if partition is None else partition.lead
            if partition is None or lead is None or asked.current_leader_epoch != partition.leader_epoch:
                feed.ready[fed] = None
                continue
            progress = lead.followers.get(node_id)
            offset = asked.offset
            if progress is None or not partition.holds_prefix(offset, asked.last_fetched_epoch):
                feed.ready[fed] = None
                continue
            partition.follower_fetched(progress, offset, asked.log_start_offset, feed.broker_epoch)
            if offset < partition.log.offsets.end:
                feed.ready[fed] = None
            else:
                feed.ready.pop(fed, None)
                feed.moved[fed] = None

    def attempt(self, *, final: bool = False) -> Parts | None:
        """The answer, or None if it is better to wait for more."""
        request, feed = self._request, self._feed
        urgent = final or feed.urgent or request.max_wait_ms <= 0
        if not feed.ready and not urgent and request.min_bytes > 0:
            self.missing = request.min_bytes
            return None
        answers: list[PartitionAnswer] = []
        told: list[Fed] = []
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
            told.append(fed)
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
        for fed in told:
            del feed.ready[fed]
        self._tell_marks(answers, told)
        for fed, answer in zip(told, answers, strict=True):
            # The recovery from an error is news as well.
            fed.sent_mark = -1 if answer.error_code else answer.high_watermark
            fed.sent_start = answer.log_start_offset
        self._handler.context.metrics.replication_bytes_out.add(size)
        header = self._header
        parts = write_response(header.version, header.correlation_id, answers, session_id=feed.id)
        if not feed.id:
            feed.close()
        return parts

    def _tell_marks(self, answers: list[PartitionAnswer], told: list[Fed]) -> None:
        """Add what is only worth a word because there is an answer anyway."""
        moved, self._feed.moved = self._feed.moved, {}
        for fed in moved:
            partition = fed.partition
            if partition is None or partition.lead is None or fed in told:
                continue
            start, mark = partition.log.offsets.start, partition.marks.high_watermark
            if mark != fed.sent_mark or start != fed.sent_start:
                asked = fed.asked
                answers.append(PartitionAnswer(asked.topic, asked.index, 0, mark, partition.last_stable_offset, start))
                told.append(fed)

    def _find(self, fed: Fed) -> Partition | None:
        replicas = self._handler.replicas
        asked = fed.asked
        topic = (replicas.by_id if self._by_id else replicas.by_name).get(asked.topic)
        partition = None if topic is None else topic.partitions.get(asked.index)
        if fed.partition is not partition:
            fed.join(partition)
        return partition

    def _read(self, fed: Fed, room: int, *, at_least_one: bool) -> PartitionAnswer | None:
        """What the follower is to be told of a partition; None if there is nothing that it may have yet."""
        asked = fed.asked
        partition = self._find(fed)
        try:
            if partition is None:
                raise not_hosted(self._handler.context, asked.topic, asked.index, by_id=self._by_id)
            return self._read_held(fed, partition, room, at_least_one=at_least_one)
        except OffsetOutOfRange as refusal:
            answer = PartitionAnswer(asked.topic, asked.index, refusal.code)
            if partition is not None:
                # So that the follower knows where to begin.
                answer.log_start_offset = partition.log.start_offset
            return answer
        except Refusal as refusal:
            answer = PartitionAnswer(asked.topic, asked.index, refusal.code)
            if partition is not None:
                answer.current_leader = (partition.leader, partition.leader_epoch)
            return answer
        except (OSError, Corruption) as error:
            log.error("replica fetch of %r-%d at %d failed: %s", asked.topic, asked.index, asked.offset, error)
            return PartitionAnswer(asked.topic, asked.index, StorageError.code)
        except Exception:
            log.exception("replica fetch of %r-%d at %d failed", asked.topic, asked.index, asked.offset)
            return PartitionAnswer(asked.topic, asked.index, UNKNOWN_SERVER_ERROR)

    def _read_held(self, fed: Fed, partition: Partition, room: int, *, at_least_one: bool) -> PartitionAnswer | None:
        asked = fed.asked
        partition.check_epoch(asked.current_leader_epoch)
        lead = partition.lead
        node_id = self._feed.node_id
        progress = None if lead is None else lead.followers.get(node_id)
        if lead is None or progress is None:
            raise NotLeaderOrFollower
        held = partition.log
        if asked.last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(asked.offset, asked.last_fetched_epoch)
            if diverging is not None:
                mark, start = partition.marks.high_watermark, held.offsets.start
                answer = PartitionAnswer(asked.topic, asked.index, 0, mark, -1, start)
                answer.diverging = diverging
                return answer
        throttle = self._handler.replicas.leader_throttle
        held_back = throttle.holds_back(partition, node_id, is_member=lead.is_member(node_id))
        records = None
        if not held_back:
            if asked.offset == progress.sent_offset:
                # It was sent these records and did not take them: perhaps they fail their checksum.
                held.reader.distrust(asked.offset)
                progress.sent_offset = -1
            records = partition.read_for_replica(
                asked.offset, max_bytes=min(asked.max_bytes, room), at_least_one=at_least_one
            )
        if records is None:
            # It may have no more now, or there is no room for it: it stays in line.
            return None
        progress.sent_offset = asked.offset
        answer = PartitionAnswer(
            asked.topic,
            asked.index,
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
        self._look(final=False)

    def finish(self) -> None:
        self._look(final=True)

    def _look(self, *, final: bool) -> None:
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
