"""Kafka's cluster metadata records: typed values and their encoding.

A value is a frame version, the record's api key and version as unsigned varints, then
its fields in Kafka's flexible encoding, so that Kafka's own tools can read the metadata log. Each type is written
in one version; older versions can be read. Only records that `delta.py` applies are defined here.
Uses `fields.py`. Refuses unknown keys, versions and malformed bytes: Corruption.
"""

from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from uuid import UUID

from penstock.model.errors import Corruption
from penstock.wire.fields import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UINT16,
    UUID_,
    ZERO_UUID,
    Field,
    Layout,
    Reader,
    array,
    uuid_of,
    write_uvarint,
)
from penstock.wire.shared_fields import SharedFields

FRAME_VERSION = 1
_OWN_TAG = 100
"""The first tag of Penstock's own fields. Nodes and tools that do not know a tag skip it."""
NO_CHANGE = -2
"""The leader in a PartitionChangeRecord that does not change the leader; -1 means no leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEndpoint:
    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFeature:
    name: str
    min_supported_version: int
    max_supported_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker process has registered: replaces the previous registration of the broker."""

    broker_id: int
    is_migrating_zk_broker: bool = False
    incarnation_id: UUID
    broker_epoch: int
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition with its whole state: newly created, or in a snapshot."""

    partition_id: int
    topic_id: UUID
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int
    leader_recovery_state: int = 0
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One setting of one resource; a value of None removes it."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None = field(repr=False)
    """Not shown: it may be a password."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """The changes of a partition; None (and NO_CHANGE, -1 for the recovery state) leaves a field unchanged."""

    partition_id: int
    topic_id: UUID
    isr: tuple[int, ...] | None = None
    leader: int = NO_CHANGE
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    directories: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """The topic is deleted, with its partitions and configs."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """The finalised level of a feature; level 0 removes the feature."""

    name: str
    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityPart:
    """One part of a quota entity; the name None is the default of that type."""

    entity_type: str
    entity_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaRecord:
    """One quota of one entity; with `remove` it is removed and the value is ignored."""

    entity: tuple[QuotaEntityPart, ...]
    key: str
    value: float = 0.0
    remove: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramCredentialRecord:
    """The SCRAM credential of a user for one mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    name: str
    mechanism: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveUserScramCredentialRecord:
    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationTokenRecord:
    """A delegation token was created or renewed. It contains no secret."""

    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveDelegationTokenRecord:
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessControlEntryRecord:
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAccessControlEntryRecord:
    id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """Every producer id below `next_producer_id` has been allocated."""

    broker_id: int
    broker_epoch: int = -1
    next_producer_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A change of a broker registration; 0 and empty log_dirs mean no change.

    fenced: 1 fences, -1 unfences. in_controlled_shutdown: 1 begins it. read_only: 1 the broker cannot append to
    its logs, -1 it can again.
    """

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[UUID, ...] = ()
    read_only: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller process has registered: replaces the previous registration of the controller."""

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool = False
    end_points: tuple[BrokerEndpoint, ...] = ()
    features: tuple[BrokerFeature, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """A record that changes nothing and advances the log."""


MetadataRecord = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
    | DelegationTokenRecord
    | RemoveDelegationTokenRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | RegisterControllerRecord
    | NoOpRecord
)

_INT32S = array(INT32)
_INT32S_OR_NULL = array(INT32, nullable=True)
_UUIDS = array(UUID_)
_UUIDS_OR_NULL = array(UUID_, nullable=True)

_ENDPOINT = Layout(
    BrokerEndpoint,
    0,
    Field("name", STRING),
    Field("host", STRING),
    Field("port", UINT16),
    Field("security_protocol", INT16),
)
_FEATURE = Layout(
    BrokerFeature,
    0,
    Field("name", STRING),
    Field("min_supported_version", INT16),
    Field("max_supported_version", INT16),
)
_QUOTA_ENTITY = Layout(QuotaEntityPart, 0, Field("entity_type", STRING), Field("entity_name", NULLABLE_STRING))

_PARTITION_FIELDS = (
    Field("replicas", _INT32S),
    Field("isr", _INT32S),
    Field("removing_replicas", _INT32S),
    Field("adding_replicas", _INT32S),
    Field("leader", INT32),
    Field("leader_recovery_state", INT8, tag=0, default=0),
    Field("leader_epoch", INT32),
    Field("partition_epoch", INT32),
    Field("directories", _UUIDS, since=1),
    Field("eligible_leader_replicas", _INT32S_OR_NULL, since=2, tag=1, default=None),
    Field("last_known_elr", _INT32S_OR_NULL, since=2, tag=2, default=None),
)
_PARTITION_CHANGE_FIELDS = (
    Field("isr", _INT32S_OR_NULL, tag=0, default=None),
    Field("leader", INT32, tag=1, default=NO_CHANGE),
    Field("replicas", _INT32S_OR_NULL, tag=2, default=None),
    Field("removing_replicas", _INT32S_OR_NULL, tag=3, default=None),
    Field("adding_replicas", _INT32S_OR_NULL, tag=4, default=None),
    Field("leader_recovery_state", INT8, tag=5, default=-1),
    Field("eligible_leader_replicas", _INT32S_OR_NULL, since=2, tag=6, default=None),
    Field("last_known_elr", _INT32S_OR_NULL, since=2, tag=7, default=None),
    Field("directories", _UUIDS_OR_NULL, since=1, tag=8, default=None),
)
_PARTITION_KEY = (Field("partition_id", INT32), Field("topic_id", UUID_))

_LAYOUTS: dict[int, Layout] = {
    0: Layout(
        RegisterBrokerRecord,
        3,
        Field("broker_id", INT32),
        Field("is_migrating_zk_broker", BOOLEAN, since=2),
        Field("incarnation_id", UUID_),
        Field("broker_epoch", INT64),
        Field("end_points", array(_ENDPOINT.kind())),
        Field("features", array(_FEATURE.kind())),
        Field("rack", NULLABLE_STRING),
        Field("fenced", BOOLEAN),
        Field("in_controlled_shutdown", BOOLEAN, since=1),
        Field("log_dirs", _UUIDS, since=3, tag=0, default=()),
        Field("read_only", BOOLEAN, tag=_OWN_TAG, default=False),
    ),
    1: Layout(UnregisterBrokerRecord, 0, Field("broker_id", INT32), Field("broker_epoch", INT64)),
    2: Layout(TopicRecord, 0, Field("name", STRING), Field("topic_id", UUID_)),
    3: Layout(PartitionRecord, 2, *_PARTITION_KEY, *_PARTITION_FIELDS),
    4: Layout(
        ConfigRecord,
        0,
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("name", STRING),
        Field("value", NULLABLE_STRING),
    ),
    5: Layout(PartitionChangeRecord, 2, *_PARTITION_KEY, *_PARTITION_CHANGE_FIELDS),
    9: Layout(RemoveTopicRecord, 0, Field("topic_id", UUID_)),
    10: Layout(
        DelegationTokenRecord,
        0,
        Field("owner", STRING),
        Field("requester", STRING),
        Field("renewers", array(STRING)),
        Field("issue_timestamp", INT64),
        Field("max_timestamp", INT64),
        Field("expiration_timestamp", INT64),
        Field("token_id", STRING),
    ),
    11: Layout(
        UserScramCredentialRecord,
        0,
        Field("name", STRING),
        Field("mechanism", INT8),
        Field("salt", BYTES),
        Field("stored_key", BYTES),
        Field("server_key", BYTES),
        Field("iterations", INT32),
    ),
    12: Layout(FeatureLevelRecord, 0, Field("name", STRING), Field("feature_level", INT16)),
    14: Layout(
        ClientQuotaRecord,
        0,
        Field("entity", array(_QUOTA_ENTITY.kind())),
        Field("key", STRING),
        Field("value", FLOAT64),
        Field("remove", BOOLEAN),
    ),
    15: Layout(
        ProducerIdsRecord,
        0,
        Field("broker_id", INT32),
        Field("broker_epoch", INT64),
        Field("next_producer_id", INT64),
    ),
    17: Layout(
        BrokerRegistrationChangeRecord,
        2,
        Field("broker_id", INT32),
        Field("broker_epoch", INT64),
        Field("fenced", INT8, tag=0, default=0),
        Field("in_controlled_shutdown", INT8, since=1, tag=1, default=0),
        Field("log_dirs", _UUIDS, since=2, tag=2, default=()),
        Field("read_only", INT8, tag=_OWN_TAG, default=0),
    ),
    18: Layout(
        AccessControlEntryRecord,
        0,
        Field("id", UUID_),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("pattern_type", INT8),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
    19: Layout(RemoveAccessControlEntryRecord, 0, Field("id", UUID_)),
    20: Layout(NoOpRecord, 0),
    22: Layout(RemoveUserScramCredentialRecord, 0, Field("name", STRING), Field("mechanism", INT8)),
    26: Layout(RemoveDelegationTokenRecord, 0, Field("token_id", STRING)),
    27: Layout(
        RegisterControllerRecord,
        0,
        Field("controller_id", INT32),
        Field("incarnation_id", UUID_),
        Field("zk_migration_ready", BOOLEAN),
        Field("end_points", array(_ENDPOINT.kind())),
        Field("features", array(_FEATURE.kind())),
    ),
}
_API_KEYS = {layout.make: api_key for api_key, layout in _LAYOUTS.items()}


# Thousands of partitions are created or change their leader together. Their records begin with the partition, and the
# rest is the same in most of them: it is encoded and decoded once.
_PARTITION_HEAD: Final = Struct(">BBBi16s")
_PARTITION_RESTS: Final = {3: SharedFields(2, *_PARTITION_FIELDS), 5: SharedFields(2, *_PARTITION_CHANGE_FIELDS)}


def encode(record: MetadataRecord) -> bytes:
    """Return the record's value bytes in the metadata log."""
    api_key = _API_KEYS[type(record)]
    layout = _LAYOUTS[api_key]
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        head = _PARTITION_HEAD.pack(FRAME_VERSION, api_key, layout.version, record.partition_id, record.topic_id.bytes)
        return head + _PARTITION_RESTS[api_key].encode(record)
    out = bytearray()
    write_uvarint(out, FRAME_VERSION)
    write_uvarint(out, api_key)
    write_uvarint(out, layout.version)
    layout.write(out, record)
    return bytes(out)


def decode(value: bytes) -> MetadataRecord:
    """Decode a record from its value bytes in the metadata log."""
    if len(value) > _PARTITION_HEAD.size and value[0] == FRAME_VERSION and value[1] in _PARTITION_RESTS:
        _, api_key, version, index, topic_id = _PARTITION_HEAD.unpack_from(value)
        rest = _PARTITION_RESTS[api_key].decode(value[_PARTITION_HEAD.size :], version)
        partition: MetadataRecord = _LAYOUTS[api_key].make(partition_id=index, topic_id=uuid_of(topic_id), **rest)
        return partition
    reader = Reader(value)
    frame_version = reader.uvarint()
    if frame_version != FRAME_VERSION:
        raise Corruption(f"frame version {frame_version} of a metadata record is unknown")
    api_key = reader.uvarint()
    version = reader.uvarint()
    layout = _LAYOUTS.get(api_key)
    if layout is None or version > layout.version:
        raise Corruption(f"metadata record type {api_key} version {version} is not supported by this release")
    record: MetadataRecord = layout.read(reader, version)
    if reader.position != len(value):
        raise Corruption(f"metadata record type {api_key} has {len(value) - reader.position} extra bytes")
    return record


MIGRATING_DIRECTORY = ZERO_UUID
"""The directory of a replica whose broker has not reported it (KIP-858); it counts as online."""
UNASSIGNED_DIRECTORY = UUID(int=1)
"""The directory of a replica that has not been assigned to one yet; it counts as online."""
LOST_DIRECTORY = UUID(int=2)
"""The directory of a replica whose data is lost or damaged: it cannot lead until it is refilled and assigned again."""
RESERVED_DIRECTORIES = 100
"""Directory ids below this number are reserved."""
