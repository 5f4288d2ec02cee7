"""OffsetCommit, versions 2-10: commits offsets of a group, or of a consumer without a group. Hot: no coroutine.

v2-4 have a retention time, v6 adds the leader epoch, v7 static members, v9 the member
epoch and GROUP_ID_NOT_FOUND in place of ILLEGAL_GENERATION, v10 topic ids. A commit is answered
when it is committed in the log. It is stored with the topic's id even if the client sent a name, so
that it never applies to a later topic of that name. Goes to groups/service.py. Refuses, per partition:
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, and for all what the group refuses.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from penstock.groups.commands import COMMITTED, OffsetCommit, OffsetToCommit
from penstock.handlers.support.context import Context
from penstock.handlers.support.reply import Parked, ParkedWrite, Parts
from penstock.metadata.image import Image
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import (
    NO_ERROR,
    UNKNOWN_SERVER_ERROR,
    GroupAuthorizationFailed,
    Refusal,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from penstock.model.ids import TopicName
from penstock.model.job import Job
from penstock.ports.network import Connection
from penstock.scheduling.scheduler import SLICE_COST
from penstock.security.rights import Rights
from penstock.wire.frame import Header, MalformedRequest
from penstock.wire.hot import offset_commit as wire

log = logging.getLogger(__name__)

MEMBER_EPOCHS_FROM: Final = 9
LARGE_SIZE_MIN: Final = 8 * 1024
"""A larger request is committed in parts: it has hundreds of partitions, or long commit metadata."""
LARGE_SIZE_MAX: Final = 4 * 1024 * 1024
CACHED_COMMITS_MAX: Final = 1 << 12
"""How many consumers' commits are remembered; each takes less than a kilobyte."""

Results = dict[wire.Topic, list[tuple[int, int]]]
"""Partitions and their error codes, by topic."""

# Constructors of named tuples from all fields, in half the time: they run for every commit.
_offset_to_commit: Callable[[tuple[str, int, int, UUID, int, str | None]], OffsetToCommit] = partial(
    tuple.__new__, OffsetToCommit
)
_offset_commit: Callable[[tuple[str, Sequence[OffsetToCommit], int, str, str | None, int, bool]], OffsetCommit] = (
    partial(tuple.__new__, OffsetCommit)
)


class _CachedCommit(NamedTuple):
    """The common part of all commits of one consumer for one partition, while the metadata image stays the same."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    topic: TopicName
    partition: int
    topic_id: UUID
    named: list[tuple[wire.Topic, int]]
    response: wire.PreparedResponse


class ParkedCommit(Parked):
    """A commit that is decided and waits only for the log: requests behind it need not wait."""

    holds_next = False
    __slots__ = ("_header", "_named", "_response", "_results")

    def __init__(
        self,
        header: Header,
        results: Results,
        named: list[tuple[wire.Topic, int]],
        response: wire.PreparedResponse | None = None,
    ) -> None:
        super().__init__()
        self._header = header
        self._results = results
        self._named = named
        self._response = response

    def done(self, reply: Any, error: Exception | None) -> None:
        if reply is COMMITTED and self._response is not None and not self._header.throttle_ms:
            self.ready((self._response.to(self._header.correlation_id),))
        elif error is None:
            self.ready(self.answer(reply.errors))
        else:
            self.ready(self.refuse(error))

    def refuse(self, error: Exception) -> Parts:
        code = error.code if isinstance(error, Refusal) else UNKNOWN_SERVER_ERROR
        return self.answer([code] * len(self._named))

    def answer(self, errors: Sequence[int]) -> Parts:
        # First the errors found here, then those of the group, as in Kafka.
        results = self._results
        for (topic, partition), error in zip(self._named, errors, strict=True):
            if topic in results:
                results[topic].append((partition, error))
            else:
                results[topic] = [(partition, error)]
        header = self._header
        rows = list(results.items())
        return (wire.write_response(header.version, header.correlation_id, rows, throttle_ms=header.throttle_ms),)


class _LargeCommit(ParkedCommit):
    """A commit in several parts; answered when all of them are done."""

    __slots__ = ("_codes", "_outstanding", "named", "results")

    def __init__(self, header: Header) -> None:
        self.results: Results = {}
        self.named: list[tuple[wire.Topic, int]] = []
        super().__init__(header, self.results, self.named)
        self._codes: list[int] = []
        self._outstanding = 1

    def part(self, count: int) -> Callable[[Any, Exception | None], None]:
        """Return the callback for the reply to the next part, which has `count` partitions."""
        start = len(self._codes)
        self._codes += [NO_ERROR] * count
        self._outstanding += 1

        def done(reply: Any, error: Exception | None) -> None:
            if error is None:
                self.part_done(start, reply.errors, None)
            else:
                code = error.code if isinstance(error, Refusal) else UNKNOWN_SERVER_ERROR
                self.part_done(start, (), (code, count))

        return done

    def part_done(self, start: int, codes: Sequence[int], all_failed: tuple[int, int] | None) -> None:
        if all_failed is not None:
            codes = [all_failed[0]] * all_failed[1]
        self._codes[start : start + len(codes)] = codes
        self._outstanding -= 1
        if not self._outstanding:
            self.ready(self.answer(self._codes))


def _may_commit(rights: Rights, image: Image, topic_named: wire.Topic, header: Header) -> bool:
    """Return whether the client may commit offsets of a topic; an unknown id is answered as unknown."""
    if isinstance(topic_named, str):
        name = topic_named
    else:
        topic = image.topics_by_id.get(topic_named)
        if topic is None:
            return True
        name = topic.name
    return rights.allows(Operation.READ, ResourceType.TOPIC, name, api_key=header.api_key)


def _refuse(topic: wire.Topic, partitions: Sequence[wire.Committed], code: int, results: Results) -> None:
    results.setdefault(topic, []).extend((index, code) for index, *_ in partitions)


def _refuse_all(body: wire.OffsetCommitRequest, code: int, results: Results) -> None:
    for topic, partitions in body.topics:
        _refuse(topic, partitions, code, results)


def _known_offsets(
    image: Image,
    topic_named: wire.Topic,
    partitions: Sequence[wire.Committed],
    results: Results,
    named: list[tuple[wire.Topic, int]],
) -> list[OffsetToCommit]:
    """Return the offsets of partitions that exist; the others get an error in the results."""
    if isinstance(topic_named, str):
        topic, unknown = image.topics.get(TopicName(topic_named)), UnknownTopicOrPartition.code
    else:
        topic, unknown = image.topics_by_id.get(topic_named), UnknownTopicId.code
    count = 0 if topic is None else len(topic.partitions)
    offsets: list[OffsetToCommit] = []
    for index, offset, leader_epoch, metadata in partitions:
        if topic is None or not 0 <= index < count:
            error = unknown if topic is None else UnknownTopicOrPartition.code
            results.setdefault(topic_named, []).append((index, error))
            continue
        named.append((topic_named, index))
        offsets.append(OffsetToCommit(topic.name, index, offset, topic.id, leader_epoch, metadata))
    return offsets


class OffsetCommitHandler:
    def __init__(self, context: Context) -> None:
        self._scheduler = context.scheduler
        self._quorum = context.quorum
        self._groups = context.groups
        self._image: Image | None = None
        self._cached_commits: dict[tuple[int, bytes], _CachedCommit] = {}
        """By version, and by the request up to the bytes that differ from the previous one."""

    def handle(
        self, frame: memoryview, header: Header, listener: str = "PLAINTEXT", connection: Connection | None = None
    ) -> Parts | Parked:
        version = header.version
        if len(frame) > LARGE_SIZE_MIN:
            return self._handle_large(frame, header)
        data = bytes(frame[header.body_position :])
        image = self._quorum.image
        if image is not self._image:
            self._cached_commits.clear()
            self._image = image
        key = version, data[: -wire.REPEATED_END]
        seen = self._cached_commits.get(key)
        if seen is None or (header.rights is not None and key not in header.rights.commits):
            return self._handle_any(data, header, image)
        offset, leader_epoch, end = wire.read_repeated_end(data, len(data) - wire.REPEATED_END)
        if end not in wire.NO_METADATA:
            return self._handle_any(data, header, image)
        group_id, generation, member_id, instance_id, topic, index, topic_id, named, response = seen
        offsets = (_offset_to_commit((topic, index, offset, topic_id, leader_epoch, wire.NO_METADATA[end])),)
        knows_epochs = version >= MEMBER_EPOCHS_FROM
        return self._commit(
            _offset_commit((group_id, offsets, generation, member_id, instance_id, -1, knows_epochs)),
            ParkedCommit(header, {}, named, response),
        )

    def _handle_any(self, data: bytes, header: Header, image: Image) -> Parts | Parked:
        version = header.version
        body = wire.read_one(version, data) if version >= wire.FLEXIBLE_FROM else None
        # Only without commit metadata is the position of the offset known.
        is_repeatable = body is not None and not body.topics[0][1][0][3]
        if body is None:
            body = wire.read_any(version, data)
        results: Results = {}
        offsets: list[OffsetToCommit] = []
        named: list[tuple[wire.Topic, int]] = []
        rights: Rights | None = header.rights
        if rights is not None and not rights.allows(
            Operation.READ, ResourceType.GROUP, body.group_id, api_key=header.api_key
        ):
            _refuse_all(body, GroupAuthorizationFailed.code, results)
        else:
            for topic_named, partitions in body.topics:
                if rights is not None and not _may_commit(rights, image, topic_named, header):
                    _refuse(topic_named, partitions, TopicAuthorizationFailed.code, results)
                else:
                    offsets += _known_offsets(image, topic_named, partitions, results, named)
        parked = ParkedCommit(header, results, named)
        if not offsets:
            return parked.answer([])
        group_id, generation, member_id, instance_id, retention_ms, _ = body
        if is_repeatable:
            self._cache_commit(version, data, (group_id, generation, member_id, instance_id), offsets[0], named)
            if rights is not None:
                rights.remember_commit((version, data[: -wire.REPEATED_END]))
        command = OffsetCommit(
            group_id, offsets, generation, member_id, instance_id, retention_ms, version >= MEMBER_EPOCHS_FROM
        )
        return self._commit(command, parked)

    def _handle_large(self, frame: memoryview, header: Header) -> Parked:
        """Commit the offsets of many partitions a few at a time; requests behind it wait until all are decided."""
        if len(frame) > LARGE_SIZE_MAX:
            raise MalformedRequest(f"an OffsetCommit request of {len(frame)} bytes is too large")
        body = wire.read_any(header.version, bytes(frame[header.body_position :]))
        outer = ParkedWrite()

        def done(reply: Any, error: BaseException | None) -> None:
            if error is None:
                outer.applied(reply)
            else:
                log.error("%r failed", header, exc_info=error)
                outer.fail()

        # A commit that has arrived is executed, even if its client closes the connection right after sending it.
        self._scheduler.run(self._committing(body, header), done, is_wanted=lambda: True)
        return outer

    def _committing(self, body: wire.OffsetCommitRequest, header: Header) -> Job[Parked]:
        image = self._quorum.image
        commit = _LargeCommit(header)
        offsets: list[OffsetToCommit] = []
        rights: Rights | None = header.rights
        if rights is not None and not rights.allows(
            Operation.READ, ResourceType.GROUP, body.group_id, api_key=header.api_key
        ):
            _refuse_all(body, GroupAuthorizationFailed.code, commit.results)
            commit.part_done(0, (), None)
            return commit
        for topic_named, partitions in body.topics:
            if rights is not None and not _may_commit(rights, image, topic_named, header):
                _refuse(topic_named, partitions, TopicAuthorizationFailed.code, commit.results)
                yield None
                continue
            for start in range(0, len(partitions), SLICE_COST):
                rows = partitions[start : start + SLICE_COST]
                offsets += _known_offsets(image, topic_named, rows, commit.results, commit.named)
                if len(offsets) >= SLICE_COST:
                    self._commit_part(body, header, offsets, commit)
                    offsets = []
                    yield None
            # An unknown topic takes some time too.
            yield None
        if offsets:
            self._commit_part(body, header, offsets, commit)
        commit.part_done(0, (), None)
        return commit

    def _commit_part(
        self, body: wire.OffsetCommitRequest, header: Header, offsets: list[OffsetToCommit], commit: "_LargeCommit"
    ) -> None:
        group_id, generation, member_id, instance_id, retention_ms, _ = body
        knows_epochs = header.version >= MEMBER_EPOCHS_FROM
        command = OffsetCommit(group_id, offsets, generation, member_id, instance_id, retention_ms, knows_epochs)
        part_done = commit.part(len(offsets))
        try:
            self._groups.commit(command, part_done)
        except Refusal as refusal:
            part_done(None, refusal)

    def _commit(self, command: OffsetCommit, parked: ParkedCommit) -> Parts | Parked:
        try:
            self._groups.commit(command, parked.done)
        except Refusal as refusal:
            return parked.refuse(refusal)
        return parked

    def _cache_commit(
        self,
        version: int,
        data: bytes,
        whose: tuple[str, int, str, str | None],
        offset: OffsetToCommit,
        named: list[tuple[wire.Topic, int]],
    ) -> None:
        """Remember a commit, so that only the offset of this consumer's next one must be decoded."""
        if len(self._cached_commits) >= CACHED_COMMITS_MAX:
            self._cached_commits.clear()
        ((topic_named, index),) = named
        response = wire.PreparedResponse(version, [(topic_named, [(index, NO_ERROR)])])
        self._cached_commits[version, data[: -wire.REPEATED_END]] = _CachedCommit(
            *whose, TopicName(offset.topic), index, offset.topic_id, named, response
        )
