"""Metadata, versions 0-13: brokers, topics and leaders, as visible from the client's listener.

Null topics mean all, an empty list none (v0 has no null: its empty list means all, which
the codec has converted to null). From v12 a topic can be named by id; if any is, names are
ignored, as in Kafka. v0-3 always allow a missing topic to be created, later versions by a flag; a
topic created that way has no leader in this response and one in the next. v6 distinguishes LISTENER_NOT_FOUND
from LEADER_NOT_AVAILABLE; v0 reports unreachable replicas as an error, later versions list them
as offline.
Goes to support/topic_creation.py for missing topics, then to support/metadata_views.py. Refuses: per topic,
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION; ids before v12: INVALID_REQUEST.
"""

from collections.abc import Container, Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from kio.schema.metadata.v10.request import MetadataRequest

from penstock.handlers.support.context import Context, Request, cluster_operations
from penstock.handlers.support.entities import TOPIC_OPERATIONS
from penstock.handlers.support.metadata_rights import creatable_topics, visible_topics
from penstock.handlers.support.metadata_views import MetadataViews, Reach, View
from penstock.handlers.support.reply import Encoded
from penstock.handlers.support.topic_creation import create_automatically
from penstock.metadata.image import Image
from penstock.model.acl import ResourceType
from penstock.model.errors import InvalidRequest, Refusal, UnknownTopicId
from penstock.model.ids import NO_NODE, TopicName
from penstock.model.topic import name_problem
from penstock.scheduling.scheduler import Pace
from penstock.wire.frame import Header
from penstock.wire.hot import metadata as wire

IDS_FROM: Final = 12
# The work on a response, in units of about a quarter of a microsecond. Other work runs between slices.
LOOKUP_COST: Final = 1
ENCODING_COST: Final = 5
SLICE_COST_MAX: Final = 8_000
TOPICS_CREATED_PER_REQUEST: Final = 50


async def handle(context: Context, request: Request) -> Encoded:
    body: MetadataRequest = request.body
    header = request.header
    version = header.version
    names, unknown_ids, has_ids = await _requested(context.quorum.image, body, request.pace)
    if has_ids and version < IDS_FROM:
        return await _refused(header, body, request.pace)
    denied: list[bytes] = []
    if request.rights is not None:
        names, denied = await visible_topics(context, request, names, by_id=has_ids)
    created: frozenset[TopicName] = frozenset()
    if _creates_missing(context, body) and names is not None:
        if request.rights is not None:
            names, refused = await creatable_topics(context, request, names)
            denied = refused + denied
        created = await _create_missing(context, request, names)
    image = context.quorum.image
    views = context.metadata_views
    reach = views.reach(image, request.listener)
    operations = TOPIC_OPERATIONS if body.include_topic_authorized_operations else wire.OPERATIONS_UNKNOWN
    view = views.view(image, reach, version, operations=operations)
    # A request for no topics is about the brokers, and Java's admin client then waits for each of them to answer.
    cluster = reach.cluster(image, version, context.cluster_id, context.node_id, lingers=names is None or bool(names))
    if names is None:
        topic_count, topics = len(image.topics), [await _all(view, image, request.pace)]
    else:
        topic_count = len(unknown_ids) + len(names) + len(denied)
        if request.rights is not None and body.include_topic_authorized_operations:
            topics = await _encoded_by_operations(request, views, reach, image, names, created)
        else:
            topics = await _encoded(view, image, names, request.pace, created=created)
        if unknown_ids:
            unknown = [_unknown_id(version, topic_id) async for topic_id in request.pace.each(unknown_ids)]
            topics.insert(0, b"".join(unknown))
        topics += denied
    wants_cluster_operations = body.include_cluster_authorized_operations
    return Encoded(
        wire.write_response(
            version,
            header.correlation_id,
            cluster,
            topic_count,
            topics,
            cluster_operations=cluster_operations(request) if wants_cluster_operations else wire.OPERATIONS_UNKNOWN,
        )
    )


def _creates_missing(context: Context, body: MetadataRequest) -> bool:
    return body.allow_auto_topic_creation and context.settings.flag("auto.create.topics.enable")


async def _encoded_by_operations(
    request: Request,
    views: MetadataViews,
    reach: Reach,
    image: Image,
    names: Iterable[TopicName],
    created: Container[TopicName],
) -> list[bytes]:
    """Return the encoded topics with the operations that the client may do on each; these are not cached."""
    by_operations: dict[int, View] = {}
    pieces: list[bytes] = []
    for name in names:
        operations = request.operations(ResourceType.TOPIC, name)
        view = by_operations.get(operations)
        if view is None:
            view = by_operations[operations] = views.uncached(reach, request.header.version, operations=operations)
        pieces += await _encoded(view, image, (name,), request.pace, created=created)
        await request.pace.rest()
    return pieces


async def _requested(
    image: Image, body: MetadataRequest, pace: Pace
) -> tuple[list[TopicName] | None, list[UUID], bool]:
    """Return the requested names, None for all topics; the ids that no topic has; whether any has an id or no name."""
    if body.topics is None:
        return None, [], False
    has_ids = False
    ids: dict[UUID, None] = {}
    named: dict[TopicName, None] = {}
    async for topic in pace.each(body.topics):
        if topic.topic_id is not None:
            ids[topic.topic_id] = None
        has_ids = has_ids or topic.name is None or bool(topic.topic_id)
        named[TopicName(topic.name or "")] = None
    if not ids:
        return list(named), [], has_ids
    names = []
    unknown = []
    async for topic_id in pace.each(ids):
        known = image.topics_by_id.get(topic_id)
        if known is None:
            unknown.append(topic_id)
        else:
            names.append(known.name)
    return names, unknown, has_ids


async def _create_missing(context: Context, request: Request, names: Iterable[TopicName]) -> frozenset[TopicName]:
    """Create missing topics and return their names; those that cannot be created stay missing."""
    image, pace = context.quorum.image, request.pace
    missing = [name async for name in pace.each(names) if name not in image.topics and name_problem(name) is None]
    for start in range(0, len(missing), TOPICS_CREATED_PER_REQUEST):
        with suppress(Refusal):
            await create_automatically(context, missing[start : start + TOPICS_CREATED_PER_REQUEST], request)
        await pace.rest()
    return frozenset(missing)


async def _all(view: View, image: Image, pace: Pace) -> bytes:
    topics = view.cached_all(image)
    if topics is None:
        # A change makes every client send a request at the same time; one of them does the work.
        async with view.encoding_all:
            topics = view.cached_all(image)
            if topics is None:
                topics = b"".join(await _encoded(view, image, image.topics, pace))
                view.cache_all(image, topics)
    return topics


async def _encoded(
    view: View, image: Image, names: Iterable[TopicName], pace: Pace, *, created: Container[TopicName] = ()
) -> list[bytes]:
    """Return the encoded topics, those of each slice in one piece; other work runs in between.

    Kafka never returns a topic to the request that created it: a client that checks whether a topic is deleted
    must not see the partitions that its request has just created. Kafka sends UNKNOWN_TOPIC_OR_PARTITION,
    older versions LEADER_NOT_AVAILABLE; this is the latter, because every client retries on it.
    """
    slices = []
    pieces: list[bytes] = []
    spent = 0
    for name in names:
        topic = image.topics.get(name)
        if topic is not None and name in created:
            pieces.append(view.without_leader(topic))
            continue
        piece = None if topic is None else view.cached(topic)
        if piece is not None:
            cost = LOOKUP_COST
        else:
            cost = ENCODING_COST if topic is None else ENCODING_COST * (1 + len(topic.partitions))
        spent += cost
        if spent > SLICE_COST_MAX:
            spent = cost
            slices.append(b"".join(pieces))
            pieces.clear()
            await pace.rest()
        if piece is None:
            piece = view.missing(name) if topic is None else view.topic(topic)
        pieces.append(piece)
    slices.append(pieces[0] if len(pieces) == 1 else b"".join(pieces))
    return slices


def _unknown_id(version: int, topic_id: UUID) -> bytes:
    return wire.pack_topic(version, UnknownTopicId.code, None, topic_id, is_internal=False, rows=())


async def _refused(header: Header, body: MetadataRequest, pace: Pace) -> Encoded:
    topics = [
        wire.pack_topic(
            header.version, InvalidRequest.code, topic.name or "", topic.topic_id, is_internal=False, rows=()
        )
        async for topic in pace.each(body.topics or ())
    ]
    cluster = wire.pack_cluster(header.version, (), None, NO_NODE)
    return Encoded(wire.write_response(header.version, header.correlation_id, cluster, len(topics), [b"".join(topics)]))
