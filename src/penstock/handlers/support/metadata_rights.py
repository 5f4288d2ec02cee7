"""The topics that a client may see in Metadata, and those that it may create by asking for them.

A topic that the client may not describe is answered in the same way whether it exists or not.
"""

from uuid import UUID

from penstock.handlers.support.context import Context, Request
from penstock.model.acl import Operation
from penstock.model.errors import TopicAuthorizationFailed
from penstock.model.ids import TopicName
from penstock.wire.hot import metadata as wire


async def visible_topics(
    context: Context, request: Request, names: list[TopicName] | None, *, by_id: bool
) -> tuple[list[TopicName], list[bytes]]:
    """Return the topics that the client may see, and the encoded errors of the others; None means all topics."""
    image = context.quorum.image
    is_all = names is None
    visible: list[TopicName] = []
    denied: list[bytes] = []
    async for name in request.pace.each(list(image.topics) if names is None else names):
        if request.may_on_topic(Operation.DESCRIBE, name, is_asked=not is_all):
            visible.append(name)
        elif by_id:
            # Ids are no secret, names are.
            topic = image.topics.get(name)
            denied.append(_denied(request, None, None if topic is None else topic.id))
        elif not is_all:
            denied.append(_denied(request, name, None))
    return visible, denied


async def creatable_topics(
    context: Context, request: Request, names: list[TopicName]
) -> tuple[list[TopicName], list[bytes]]:
    """Return the topics that exist or that the client may create, and the encoded errors of the others."""
    beyond = frozenset(request.topics_beyond_cluster(Operation.CREATE, names))
    if not beyond:
        return names, []
    image = context.quorum.image
    kept: list[TopicName] = []
    denied: list[bytes] = []
    async for name in request.pace.each(names):
        if name not in beyond or name in image.topics or request.may_on_topic(Operation.CREATE, name):
            kept.append(name)
        else:
            denied.append(_denied(request, name, None))
    return kept, denied


def _denied(request: Request, name: str | None, topic_id: UUID | None) -> bytes:
    return wire.pack_topic(
        request.header.version, TopicAuthorizationFailed.code, name, topic_id, is_internal=False, rows=()
    )
