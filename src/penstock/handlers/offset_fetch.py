"""OffsetFetch, versions 1-10: the committed offsets of groups.

The offset of a partition without a commit is -1 without an error, even if the group or topic does not exist. v1 has
errors only for partitions, so a group's error is repeated there; v2 reads null topics as all
that the group has committed; v7 can ask for stable offsets only, and refuses those that an open
transaction may replace; v8 adds many groups; v9 the member epoch (KIP-848); v10 topic ids.
Decoded by wire/hot/offset_fetch.py; goes to groups/offsets.py. Refuses: UNKNOWN_TOPIC_ID and
UNSTABLE_OFFSET_COMMIT per partition; per group STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, and what
every coordinator refuses.
"""

from typing import TYPE_CHECKING, Final
from uuid import UUID

from penstock.coordinator.errors import CoordinatorNotAvailable, NotCoordinator
from penstock.groups.commands import OffsetFetch, OffsetFetchReply
from penstock.groups.errors import UnstableOffsetCommit
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.reply import Encoded
from penstock.model.acl import Operation
from penstock.model.errors import GroupAuthorizationFailed, Refusal, TopicAuthorizationFailed, UnknownTopicId
from penstock.model.ids import TopicName
from penstock.wire.hot import offset_fetch as wire

if TYPE_CHECKING:
    from penstock.groups.records import OffsetCommitValue
    from penstock.metadata.image import Image

GROUP_COST: Final = 10
"""The cost of a group in a slice, where a partition costs 1."""

Committed = tuple[str, tuple[tuple[int, "OffsetCommitValue | None"], ...]]
Named = tuple[tuple[str, tuple[int, ...]], ...]
Answer = tuple[wire.Topic, list[wire.PartitionRow]]


async def handle(context: Context, request: Request) -> Encoded:
    body: wire.OffsetFetchRequest = request.body
    header = request.header
    groups = [
        await _fetch(context, request, group, body.require_stable)
        async for group in request.pace.each(body.groups, cost=GROUP_COST)
    ]
    return Encoded((wire.write_response(header.version, header.correlation_id, groups),))


async def _fetch(
    context: Context, request: Request, group: wire.GroupRequest, require_stable: bool
) -> wire.GroupResponse:
    version = request.header.version
    if not request.may_on_group(Operation.DESCRIBE, group.group_id):
        return _refused(version, group, GroupAuthorizationFailed.code)
    image = context.quorum.image
    known, unknown = _named(image, group.topics)
    denied: wire.Topics = []
    if request.rights is not None and known is not None:
        known, denied = _visible(request, image, group, known)
    command = OffsetFetch(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=known,
        require_stable=require_stable,
    )
    try:
        reply: OffsetFetchReply = await context.groups.ask(group.group_id, command)
        error = reply.error
    except CoordinatorNotAvailable:
        # Consumers before 3.9 fail on that error; this one makes them look for the coordinator again.
        error = NotCoordinator.code
    except Refusal as refusal:
        error = refusal.code
    if error:
        return _refused(version, group, error)
    by_id = version >= wire.TOPIC_ID_FROM
    committed = reply.topics
    if request.rights is not None and known is None:
        committed = tuple(
            each for each in committed if request.may_on_topic(Operation.DESCRIBE, each[0], is_asked=False)
        )
    found = (_answer(image, each, by_id, reply.unstable) for each in committed)
    topics = [answer for answer in found if answer is not None]
    topics += [_failed(*topic, UnknownTopicId.code) for topic in unknown]
    topics += [_failed(*topic, TopicAuthorizationFailed.code) for topic in denied]
    return wire.GroupResponse(group.group_id, topics)


def _visible(request: Request, image: "Image", group: wire.GroupRequest, known: Named) -> tuple[Named, wire.Topics]:
    """Return the topics that the client may see, and the others as the request names them."""
    hidden = {name for name, _ in known if not request.may_on_topic(Operation.DESCRIBE, name)}
    denied = [
        (topic, indexes)
        for topic, indexes in group.topics or ()
        if (topic if isinstance(topic, str) else _name_of(image, topic)) in hidden
    ]
    return tuple(each for each in known if each[0] not in hidden), denied


def _name_of(image: "Image", topic_id: UUID) -> str | None:
    topic = image.topics_by_id.get(topic_id)
    return None if topic is None else topic.name


def _named(image: "Image", topics: wire.Topics | None) -> tuple[Named | None, wire.Topics]:
    """Return the topics by name, None for all, and those with an unknown id."""
    if topics is None:
        return None, []
    known: list[tuple[str, tuple[int, ...]]] = []
    unknown: wire.Topics = []
    for topic, indexes in topics:
        if isinstance(topic, str):
            known.append((topic, indexes))
        elif (found := image.topics_by_id.get(topic)) is not None:
            known.append((found.name, indexes))
        else:
            unknown.append((topic, indexes))
    return tuple(known), unknown


def _answer(image: "Image", committed: Committed, by_id: bool, unstable: frozenset[tuple[str, int]]) -> Answer | None:
    name, partitions = committed
    topic = image.topics.get(TopicName(name))
    if by_id and topic is None:
        # Deleted, and its offsets will be too: it has no name any more.
        return None
    topic_id = None if topic is None else topic.id
    rows = [
        wire.PartitionRow(index, error_code=UnstableOffsetCommit.code)
        if (name, index) in unstable
        else _row(index, value, topic_id)
        for index, value in partitions
    ]
    return topic_id if by_id and topic_id is not None else name, rows


def _row(index: int, value: "OffsetCommitValue | None", topic_id: UUID | None) -> wire.PartitionRow:
    # An offset committed for an earlier topic of that name does not apply to this one.
    if value is None or (topic_id is not None and value.topic_id.int and value.topic_id != topic_id):
        return wire.PartitionRow(index)
    return wire.PartitionRow(index, value.offset, value.leader_epoch, value.metadata)


def _failed(topic: wire.Topic, indexes: tuple[int, ...], error: int) -> Answer:
    return topic, [wire.PartitionRow(index, error_code=error) for index in indexes]


def _refused(version: int, group: wire.GroupRequest, error: int) -> wire.GroupResponse:
    if version >= wire.ERROR_FROM:
        return wire.GroupResponse(group.group_id, error_code=error)
    return wire.GroupResponse(group.group_id, [_failed(*topic, error) for topic in group.topics or ()])
