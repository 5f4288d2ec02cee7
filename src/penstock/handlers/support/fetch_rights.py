"""The rights of clients that fetch: to read topics, and to act as a replica.

Refuses: MalformedRequest for a client that fetches as a replica, if there is no authorizer to say that it may not.
"""

from typing import TYPE_CHECKING

from penstock.handlers.support.partition_errors import topic_name_of
from penstock.handlers.support.reply import Parts
from penstock.metadata.opening import METADATA_TOPIC_ID
from penstock.model.acl import CLUSTER_NAME, Operation, ResourceType
from penstock.model.errors import ClusterAuthorizationFailed, TopicAuthorizationFailed
from penstock.security.principal import Principal
from penstock.security.rights import Rights
from penstock.wire.frame import Header, MalformedRequest
from penstock.wire.hot.fetch import TOPIC_ID_FROM, FetchPartition, FetchRequest, PartitionAnswer, write_response

if TYPE_CHECKING:
    from penstock.handlers.fetch import FetchHandler


def owner_of(header: Header) -> Principal | None:
    """Return the principal that a fetch session belongs to; None without an authorizer."""
    rights: Rights | None = header.rights
    return None if rights is None else rights.principal


def may_read(handler: "FetchHandler", header: Header, requested: FetchPartition) -> bool:
    """Return whether the client may read a topic; an unknown id has no name, and is answered as unknown."""
    rights: Rights = header.rights
    by_id = header.version >= TOPIC_ID_FROM
    hosted = (handler.replicas.by_id if by_id else handler.replicas.by_name).get(requested.topic)
    name = topic_name_of(handler.context, requested.topic, hosted, by_id=by_id)
    return name is None or rights.may_read(requested.topic, name, by_id=by_id, api_key=header.api_key)


def deny_replica(request: FetchRequest, header: Header) -> Parts | None:
    """Return the response to a client that fetches as a replica, or None if it may."""
    rights: Rights | None = header.rights
    if rights is None:
        raise MalformedRequest("a fetch with a replica id is only for nodes of the cluster")
    if rights.allows(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, api_key=header.api_key):
        return None
    if request.partitions and request.partitions[0].topic == METADATA_TOPIC_ID.bytes:
        return write_response(header.version, header.correlation_id, (), error_code=ClusterAuthorizationFailed.code)
    answers = [PartitionAnswer(each.topic, each.index, TopicAuthorizationFailed.code) for each in request.partitions]
    for answer in answers:
        answer.aborted = ()
    return write_response(header.version, header.correlation_id, answers)
