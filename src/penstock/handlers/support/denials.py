"""Responses to requests that are denied as a whole, with CLUSTER_AUTHORIZATION_FAILED where Kafka puts it.

Most APIs have an error code for the whole response. The others repeat the error for each entry of the request.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Final, get_args, get_type_hints

from kio.schema.errors import ErrorCode

from penstock.handlers.support.context import Request
from penstock.handlers.support.entities import NO_THROTTLE, int32, int64, node
from penstock.model.errors import ClusterAuthorizationFailed
from penstock.model.ids import NO_NODE
from penstock.wire.api import APIS, ApiKey
from penstock.wire.codec import response_class

CODE: Final = ErrorCode(ClusterAuthorizationFailed.code)
MESSAGE: Final = ClusterAuthorizationFailed.meaning


def denied(request: Request) -> Any:
    """Return the response to a request that the client may not send."""
    build = _SHAPES.get(request.header.api_key)
    return _top_level(request) if build is None else build(request)


_COMMON: Final[Mapping[str, Any]] = {
    "throttle_time": NO_THROTTLE,
    "error_code": CODE,
    "error_message": MESSAGE,
    "should_shut_down": False,
    "producer_id_start": int64(-1),
    "producer_id_len": int32(0),
}


def _top_level(request: Request, version: int | None = None, **values: Any) -> Any:
    """Build a response with an error code for all of it; lists are empty unless given."""
    api_key = request.header.api_key
    layout = response_class(api_key, APIS[api_key].max_version if version is None else version)
    return _filled(layout, **values)


def _create_acls(request: Request) -> Any:
    from kio.schema.create_acls.v3.response import AclCreationResult

    result = AclCreationResult(error_code=CODE, error_message=MESSAGE)
    return _top_level(request, results=(result,) * len(request.body.creations))


def _delete_acls(request: Request) -> Any:
    from kio.schema.delete_acls.v3.response import DeleteAclsFilterResult

    result = DeleteAclsFilterResult(error_code=CODE, error_message=MESSAGE, matching_acls=())
    return _top_level(request, filter_results=(result,) * len(request.body.filters))


def _alter_replica_log_dirs(request: Request) -> Any:
    from kio.schema.alter_replica_log_dirs.v2 import response

    results = tuple(
        response.AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=tuple(
                response.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=CODE)
                for index in topic.partitions
            ),
        )
        for folder in request.body.dirs
        for topic in folder.topics
    )
    return _top_level(request, results=results)


def _elect_leaders(request: Request) -> Any:
    from kio.schema.elect_leaders.v2.response import PartitionResult, ReplicaElectionResult

    results = tuple(
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                PartitionResult(partition_id=index, error_code=CODE, error_message=MESSAGE)
                for index in topic.partitions
            ),
        )
        for topic in request.body.topic_partitions or ()
    )
    return _top_level(request, replica_election_results=results)


def _alter_partition_reassignments(request: Request) -> Any:
    from kio.schema.alter_partition_reassignments.v1 import response

    responses = tuple(
        response.ReassignableTopicResponse(
            name=topic.name,
            partitions=tuple(
                response.ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=CODE, error_message=MESSAGE
                )
                for each in topic.partitions
            ),
        )
        for topic in request.body.topics
    )
    return _top_level(request, responses=responses)


def _list_partition_reassignments(request: Request) -> Any:
    from kio.schema.list_partition_reassignments.v0 import response

    topics = tuple(
        response.OngoingTopicReassignment(
            name=topic.name,
            partitions=tuple(
                response.OngoingPartitionReassignment(
                    partition_index=index, replicas=(), adding_replicas=(), removing_replicas=()
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in request.body.topics or ()
    )
    return _top_level(request, topics=topics)


def _alter_client_quotas(request: Request) -> Any:
    from kio.schema.alter_client_quotas.v1.response import EntityData, EntryData

    entries = tuple(
        EntryData(
            error_code=CODE,
            error_message=MESSAGE,
            entity=tuple(
                EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity
            ),
        )
        for entry in request.body.entries
    )
    return _top_level(request, entries=entries)


def _describe_client_quotas(request: Request) -> Any:
    return _top_level(request, error_message=None, entries=None)


def _describe_user_scram_credentials(request: Request) -> Any:
    from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResult

    # As in Kafka, the results do not name the users.
    result = DescribeUserScramCredentialsResult(user="", error_code=CODE, error_message=None, credential_infos=())
    return _top_level(request, error_message=None, results=(result,) * len(request.body.users or ()))


def _alter_user_scram_credentials(request: Request) -> Any:
    from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResult

    users = sorted({each.name for each in (*request.body.deletions, *request.body.upsertions)})
    results = tuple(
        AlterUserScramCredentialsResult(user=user, error_code=CODE, error_message=MESSAGE) for user in users
    )
    return _top_level(request, results=results)


def _update_features(request: Request) -> Any:
    return _top_level(request, version=min(max(request.header.version, 1), 2))


def _write_txn_markers(request: Request) -> Any:
    from kio.schema.write_txn_markers.v2 import response

    markers = tuple(
        response.WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=tuple(
                response.WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        response.WritableTxnMarkerPartitionResult(partition_index=index, error_code=CODE)
                        for index in topic.partition_indexes
                    ),
                )
                for topic in marker.topics
            ),
        )
        for marker in request.body.markers
    )
    return _top_level(request, markers=markers)


def _update_raft_voter(request: Request) -> Any:
    from kio.schema.update_raft_voter.v0.response import CurrentLeader

    nobody = CurrentLeader(leader_id=node(NO_NODE), leader_epoch=int32(-1), host="", port=int32(0))
    return _top_level(request, current_leader=nobody)


def _share_group_state(request: Request) -> Any:
    """Build the response of the APIs about the state of share groups: an error for each partition."""
    layout = response_class(request.header.api_key, APIS[request.header.api_key].max_version)
    result = _element(layout, "results")
    partition = _element(result, "partitions")
    results = tuple(
        result(
            topic_id=topic.topic_id,
            partitions=tuple(_filled(partition, partition=each.partition) for each in topic.partitions),
        )
        for topic in request.body.topics
    )
    return layout(results=results)


def _element(layout: type[Any], name: str) -> type[Any]:
    """Return the class of the elements of a list."""
    element: type[Any] = get_args(get_type_hints(layout)[name])[0]
    return element


def _filled(layout: type[Any], **values: Any) -> Any:
    for field in fields(layout):
        if field.name not in values and (field.name in _COMMON or field.default is MISSING):
            values[field.name] = _COMMON.get(field.name, _MISSING_VALUES.get(field.name, ()))
    return layout(**values)


_SHARE_GROUP_STATE: Final = range(ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.READ_SHARE_GROUP_STATE_SUMMARY + 1)
_MISSING_VALUES: Final = {"state_epoch": int32(0), "leader_epoch": int32(0), "start_offset": int64(0)}

_SHAPES: Final[Mapping[int, Callable[[Request], Any]]] = {
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_replica_log_dirs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _list_partition_reassignments,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_client_quotas,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_user_scram_credentials,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.UPDATE_RAFT_VOTER: _update_raft_voter,
    **dict.fromkeys(_SHARE_GROUP_STATE, _share_group_state),
}
