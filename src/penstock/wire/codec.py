"""Requests and responses as entities, for every API that is not hot.

Handlers see the classes of one version only: the latest, unless an older one has fields that were removed.
Requests of any version are decoded into them, and fields that the version lacks take the schema's defaults. A response
is encoded in the version of its request, without the fields that it lacks. Produce and Fetch changed from topic
names to topic ids along the way, so here their bodies stay entities of their own version,
for tests and tools. Some requests are decoded by a hand-written reader of `hot/` instead; their handlers
encode the response with it too. Codecs are compiled on first use, so that they cost nothing at start-up.
Refuses: MalformedRequest, UnsupportedVersion; CannotWrite is a bug of this node.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from struct import error as StructError
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode

from penstock.model.errors import UnsupportedVersion
from penstock.model.job import Job
from penstock.wire.api import APIS, Api, ApiKey
from penstock.wire.frame import MalformedRequest
from penstock.wire.hot import consumer_group_heartbeat, heartbeat, offset_commit, offset_fetch
from penstock.wire.reader import ELEMENT_COUNT_MAX, AnyBody, Body, LargeBody, entity_reader
from penstock.wire.schema import default_entity, shape_of
from penstock.wire.sliced import BYTES_PER_SLICE, Out, entity_reading, entity_writing
from penstock.wire.writer import CannotWrite, entity_writer

Buffer = bytes | bytearray | memoryview

REQUEST_SIZE_MAX: Final = 16 * 1024 * 1024
"""Only Produce may be larger; `reader.ELEMENT_COUNT_MAX` bounds the number of elements in a request."""
REQUEST_SIZES_MAX: Final = {ApiKey.JOIN_GROUP: 4 * 1024 * 1024, ApiKey.SYNC_GROUP: 4 * 1024 * 1024}
"""A group is written as one record, which holds the metadata and assignments of its members."""

_FULLEST: Final = {ApiKey.METADATA: 10}
"""Requests whose later versions lost a field: Metadata v11 no longer asks for the cluster's authorized operations."""

FEW_ELEMENTS: Final = 1_000
ELEMENT_COUNTS_MAX: Final = {
    **dict.fromkeys(
        (
            ApiKey.JOIN_GROUP,
            ApiKey.LIST_GROUPS,
            ApiKey.DESCRIBE_ACLS,
            ApiKey.CREATE_ACLS,
            ApiKey.DELETE_ACLS,
            ApiKey.CREATE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            ApiKey.DESCRIBE_CLIENT_QUOTAS,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.UPDATE_FEATURES,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.BROKER_REGISTRATION,
            ApiKey.BROKER_HEARTBEAT,
            ApiKey.LIST_TRANSACTIONS,
            ApiKey.CONTROLLER_REGISTRATION,
            ApiKey.LIST_CONFIG_RESOURCES,
            ApiKey.ADD_RAFT_VOTER,
            ApiKey.UPDATE_RAFT_VOTER,
        ),
        FEW_ELEMENTS,
    ),
    ApiKey.SYNC_GROUP: 5_000,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: 5_000,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5_000,
}
"""Requests that never hold many elements; the others may hold `reader.ELEMENT_COUNT_MAX` (docs/internals/loop.md)."""
UPGRADED_ELEMENT_COUNT_MAX: Final = 5_000
_UNWRITABLE: Final = (StructError, AttributeError, TypeError, ValueError)

_CLIENT_METRICS: Final = 16
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def read_request(api_key: int, version: int, body: Buffer) -> Any:
    """Decode the body of a request to an entity of `seen_request_class`, or to the type of its hand-written reader.

    Bytes behind the body are ignored, as in Kafka.
    """
    api = _served(api_key, version)
    _check_size(api, body)
    if api.hand_written:
        return _HAND_WRITTEN[api_key](version, body)
    layout = request_class(api_key, version)
    data = _limited(api_key, version, Body(body))
    entity = _read(layout, layout if api.hot else seen_request_class(api_key), data)
    upgrade = _UPGRADES.get((api_key, version))
    return entity if upgrade is None else upgrade(_read(layout, layout, Body(body)), entity)


def load(api_key: int, version: int) -> None:
    """Import and compile the codecs of a version's requests and responses."""
    api = APIS[api_key]
    if not api.accepts(version):
        return
    if not api.hand_written:
        entity_reading(request_class(api_key, version), seen_request_class(api_key))
        entity_reader(request_class(api_key, version), seen_request_class(api_key))
        entity_writing(response_class(api_key, version), response_class(api_key, api.max_version))


def load_for_client(api_key: int) -> None:
    """Import and compile the codecs with which a node sends requests to others that have its version."""
    version = APIS[api_key].max_version
    entity_writer(request_class(api_key, version), request_class(api_key, version))
    entity_reader(response_class(api_key, version), response_class(api_key, version))


def reading_request(api_key: int, version: int, body: Buffer) -> Job[Any]:
    """Decode a request like `read_request`, in slices."""
    api = _served(api_key, version)
    _check_size(api, body)
    if api.hand_written:
        return _HAND_WRITTEN[api_key](version, body)
    upgrade = _UPGRADES.get((api_key, version))
    layout = request_class(api_key, version)
    data = yield from _copying(body)
    entity = yield from _reading(layout, seen_request_class(api_key), _limited(api_key, version, data))
    if upgrade is None:
        return entity
    return upgrade((yield from _reading(layout, layout, _limited(api_key, version, data))), entity)


def writing_response(api_key: int, version: int, entity: Any) -> Job[bytes | bytearray]:
    """Encode a response like `write_response`, in slices. A long one is not copied."""
    _served(api_key, version)
    layout = response_class(api_key, version)
    out = Out()
    try:
        yield from entity_writing(layout, type(entity))(out, entity)
    except _UNWRITABLE as error:
        raise CannotWrite(f"{type(entity).__name__} as version {layout.__version__}: {error}") from error
    return bytes(out) if len(out) <= BYTES_PER_SLICE else out


def write_response(api_key: int, version: int, entity: Any) -> bytes:
    """Encode the body of a response; the entity is of the latest version, or of the given one."""
    _served(api_key, version)
    return _write(response_class(api_key, version), entity)


def write_error(api_key: int, version: int, error_code: int, message: str) -> bytes | None:
    """Encode a response that consists of an error; None if the API has errors only for the items of a request."""
    layout = response_class(api_key, version)
    shape = shape_of(layout)
    if shape.find("error_code") is None:
        return None
    values: dict[str, Any] = {"error_code": ErrorCode(error_code)}
    if shape.find("error_message") is not None:
        values["error_message"] = message
    return _write(layout, replace(default_entity(layout), **values))


def write_request(api_key: int, version: int, entity: Any) -> bytes:
    """Encode the body of a request from an entity of any version; for tests and tools."""
    _served(api_key, version)
    return _write(request_class(api_key, version), entity)


def read_response(api_key: int, version: int, body: Buffer) -> Any:
    """Decode a response to an entity of the latest version, or of its own if the codec is hand-written."""
    api = _served(api_key, version)
    layout = response_class(api_key, version)
    data = Body(body)
    data.elements_left = sys.maxsize
    is_own = api.hot or api.hand_written
    return _read(layout, layout if is_own else response_class(api_key, api.max_version), data)


@cache
def request_class(api_key: int, version: int) -> type[Any]:
    return load_request_schema(api_key, version)


@cache
def seen_request_class(api_key: int) -> type[Any]:
    """Return the class that handlers see, whatever the version of the request."""
    return request_class(api_key, _FULLEST.get(api_key, APIS[api_key].max_version))


@cache
def response_class(api_key: int, version: int) -> type[Any]:
    return load_response_schema(api_key, version)


def _served(api_key: int, version: int) -> Api:
    api = APIS.get(api_key)
    if api is None or not api.accepts(version):
        raise UnsupportedVersion(f"API {api_key} is not supported in version {version}")
    return api


def _check_size(api: Api, body: Buffer) -> None:
    if len(body) > REQUEST_SIZES_MAX.get(api.key, REQUEST_SIZE_MAX) and not api.hot:
        raise MalformedRequest(f"a {api.name} request of {len(body)} bytes is too large")


def _copying(body: Buffer) -> Job[AnyBody]:
    """Copy the bytes of a body, in slices if it is large: new memory costs two milliseconds per megabyte."""
    if len(body) <= BYTES_PER_SLICE:
        return Body(body)
    size = len(body)
    data = LargeBody(size)
    with memoryview(body) as view:
        for start in range(0, size, BYTES_PER_SLICE):
            data[start : min(start + BYTES_PER_SLICE, size)] = view[start : start + BYTES_PER_SLICE]
            yield None
    return data


def _limited(api_key: int, version: int, data: AnyBody) -> AnyBody:
    data.elements_left = ELEMENT_COUNTS_MAX.get(api_key, ELEMENT_COUNT_MAX)
    data.slice_left = data.checks_left = data.slice_end = 0
    if (api_key, version) in _UPGRADES:
        # Old versions are decoded twice, and then converted without a pause.
        data.elements_left = min(data.elements_left, UPGRADED_ELEMENT_COUNT_MAX)
    return data


def _reading(layout: type[Any], target: type[Any], data: AnyBody) -> Job[Any]:
    try:
        return (yield from entity_reading(layout, target)(data, 0))[0]
    except (StructError, IndexError):
        raise MalformedRequest(f"{layout.__name__} v{layout.__version__} ends too early") from None
    except (ValueError, OverflowError) as error:
        raise MalformedRequest(f"{layout.__name__} v{layout.__version__}: {error}") from None


def _read(layout: type[Any], target: type[Any], data: AnyBody) -> Any:
    try:
        return entity_reader(layout, target)(data, 0)[0]
    except (StructError, IndexError):
        raise MalformedRequest(f"{layout.__name__} v{layout.__version__} ends too early") from None
    except (ValueError, OverflowError) as error:
        raise MalformedRequest(f"{layout.__name__} v{layout.__version__}: {error}") from None


def _write(layout: type[Any], entity: Any) -> bytes:
    out = bytearray()
    try:
        entity_writer(layout, type(entity))(out, entity)
    except _UNWRITABLE as error:
        raise CannotWrite(f"{type(entity).__name__} as version {layout.__version__}: {error}") from error
    return bytes(out)


def _all_topics_if_none_are_named(_old: Any, entity: Any) -> Any:
    # Metadata v0 has no null array: an empty one asks for all topics.
    return entity if entity.topics else replace(entity, topics=None)


def _topics_from_names(old: Any, entity: Any) -> Any:
    topics = shape_of(type(entity)).find("topics")
    assert topics is not None and topics.entity is not None
    topic = topics.entity
    return replace(entity, topics=tuple(topic(name=name, topic_id=None) for name in old.topic_names))


def _upgrade_types(old: Any, entity: Any) -> Any:
    updates = tuple(
        replace(update, upgrade_type=_SAFE_DOWNGRADE if old_update.allow_downgrade else _UPGRADE)
        for old_update, update in zip(old.feature_updates, entity.feature_updates, strict=True)
    )
    return replace(entity, feature_updates=updates)


def _client_metrics_only(_old: Any, entity: Any) -> Any:
    # Version 0 was ListClientMetricsResources; in version 1 no types at all would mean every type.
    return replace(entity, resource_types=(_CLIENT_METRICS,))


def _members_from_member(old: Any, latest: Any) -> Any:
    members = shape_of(type(latest)).find("members")
    assert members is not None and members.entity is not None
    return replace(latest, members=(members.entity(member_id=old.member_id),))


def _keys_from_key(old: Any, latest: Any) -> Any:
    return replace(latest, coordinator_keys=(old.key,))


def _transactions_from_fields(old: Any, latest: Any) -> Any:
    transactions = shape_of(type(latest)).find("transactions")
    assert transactions is not None and transactions.entity is not None
    topics = shape_of(transactions.entity).find("topics")
    assert topics is not None and topics.entity is not None
    topic = topics.entity
    only = transactions.entity(
        transactional_id=old.v3_and_below_transactional_id,
        producer_id=old.v3_and_below_producer_id,
        producer_epoch=old.v3_and_below_producer_epoch,
        topics=tuple(topic(name=each.name, partitions=each.partitions) for each in old.v3_and_below_topics),
    )
    return replace(latest, transactions=(only,))


def _members_without_epochs(old: Any, latest: Any) -> Any:
    """Convert AlterPartition v2, which names only the members of an ISR; their broker epochs are not checked."""
    topics = []
    for old_topic, topic in zip(old.topics, latest.topics, strict=True):
        partitions = []
        for old_partition, partition in zip(old_topic.partitions, topic.partitions, strict=True):
            members = shape_of(type(partition)).find("new_isr_with_epochs")
            assert members is not None and members.entity is not None
            member = members.entity
            isr = tuple(member(broker_id=node_id) for node_id in old_partition.new_isr)
            partitions.append(replace(partition, new_isr_with_epochs=isr))
        topics.append(replace(topic, partitions=tuple(partitions)))
    return replace(latest, topics=tuple(topics))


def _candidates_from_successors(old: Any, entity: Any) -> Any:
    topics = []
    for old_topic, topic in zip(old.topics, entity.topics, strict=True):
        partitions = []
        for old_partition, partition in zip(old_topic.partitions, topic.partitions, strict=True):
            candidates = shape_of(type(partition)).find("preferred_candidates")
            assert candidates is not None and candidates.entity is not None
            candidate = candidates.entity
            named = tuple(
                candidate(candidate_id=node, candidate_directory_id=None) for node in old_partition.preferred_successors
            )
            partitions.append(replace(partition, preferred_candidates=named))
        topics.append(replace(topic, partitions=tuple(partitions)))
    return replace(entity, topics=tuple(topics))


_UPGRADES: Final[Mapping[tuple[int, int], Callable[[Any, Any], Any]]] = {
    (ApiKey.METADATA, 0): _all_topics_if_none_are_named,
    **{(ApiKey.DELETE_TOPICS, version): _topics_from_names for version in range(1, 6)},
    **{(ApiKey.FIND_COORDINATOR, version): _keys_from_key for version in range(4)},
    **{(ApiKey.LEAVE_GROUP, version): _members_from_member for version in range(3)},
    **{(ApiKey.ADD_PARTITIONS_TO_TXN, version): _transactions_from_fields for version in range(4)},
    (ApiKey.UPDATE_FEATURES, 0): _upgrade_types,
    (ApiKey.END_QUORUM_EPOCH, 0): _candidates_from_successors,
    (ApiKey.ALTER_PARTITION, 2): _members_without_epochs,
    (ApiKey.LIST_CONFIG_RESOURCES, 0): _client_metrics_only,
}
"""Conversions for versions that use another field: `(entity of that version, latest) -> latest`."""

_HAND_WRITTEN: Final[Mapping[int, Callable[[int, Buffer], Any]]] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat.read_request,
    ApiKey.HEARTBEAT: heartbeat.read_request,
    ApiKey.OFFSET_COMMIT: offset_commit.read_request,
    ApiKey.OFFSET_FETCH: offset_fetch.read_request,
}
