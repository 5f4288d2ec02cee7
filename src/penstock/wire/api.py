"""The declaration of each API that is served: one row, read by every layer.

The ApiVersions handler advertises these rows and nothing else, so a version is declared only if its handler
implements it. Ranges and flexible versions are those of Kafka 4.3. To serve another API, add its key and row here, and
its handler in `handlers/<name in snake case>.py`.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.model.acl import Right, right


class ApiKey:
    """The numbers of the APIs. Plain integers: they are compared for every request."""

    PRODUCE: Final = 0
    FETCH: Final = 1
    LIST_OFFSETS: Final = 2
    METADATA: Final = 3
    OFFSET_COMMIT: Final = 8
    OFFSET_FETCH: Final = 9
    FIND_COORDINATOR: Final = 10
    JOIN_GROUP: Final = 11
    HEARTBEAT: Final = 12
    LEAVE_GROUP: Final = 13
    SYNC_GROUP: Final = 14
    DESCRIBE_GROUPS: Final = 15
    LIST_GROUPS: Final = 16
    SASL_HANDSHAKE: Final = 17
    API_VERSIONS: Final = 18
    CREATE_TOPICS: Final = 19
    DELETE_TOPICS: Final = 20
    DELETE_RECORDS: Final = 21
    INIT_PRODUCER_ID: Final = 22
    OFFSET_FOR_LEADER_EPOCH: Final = 23
    ADD_PARTITIONS_TO_TXN: Final = 24
    ADD_OFFSETS_TO_TXN: Final = 25
    END_TXN: Final = 26
    WRITE_TXN_MARKERS: Final = 27
    TXN_OFFSET_COMMIT: Final = 28
    DESCRIBE_ACLS: Final = 29
    CREATE_ACLS: Final = 30
    DELETE_ACLS: Final = 31
    DESCRIBE_CONFIGS: Final = 32
    ALTER_CONFIGS: Final = 33
    ALTER_REPLICA_LOG_DIRS: Final = 34
    DESCRIBE_LOG_DIRS: Final = 35
    SASL_AUTHENTICATE: Final = 36
    CREATE_PARTITIONS: Final = 37
    CREATE_DELEGATION_TOKEN: Final = 38
    RENEW_DELEGATION_TOKEN: Final = 39
    EXPIRE_DELEGATION_TOKEN: Final = 40
    DESCRIBE_DELEGATION_TOKEN: Final = 41
    DELETE_GROUPS: Final = 42
    ELECT_LEADERS: Final = 43
    INCREMENTAL_ALTER_CONFIGS: Final = 44
    ALTER_PARTITION_REASSIGNMENTS: Final = 45
    LIST_PARTITION_REASSIGNMENTS: Final = 46
    OFFSET_DELETE: Final = 47
    DESCRIBE_CLIENT_QUOTAS: Final = 48
    ALTER_CLIENT_QUOTAS: Final = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
    ALTER_USER_SCRAM_CREDENTIALS: Final = 51
    VOTE: Final = 52
    BEGIN_QUORUM_EPOCH: Final = 53
    END_QUORUM_EPOCH: Final = 54
    DESCRIBE_QUORUM: Final = 55
    ALTER_PARTITION: Final = 56
    UPDATE_FEATURES: Final = 57
    ENVELOPE: Final = 58
    FETCH_SNAPSHOT: Final = 59
    DESCRIBE_CLUSTER: Final = 60
    DESCRIBE_PRODUCERS: Final = 61
    BROKER_REGISTRATION: Final = 62
    BROKER_HEARTBEAT: Final = 63
    UNREGISTER_BROKER: Final = 64
    DESCRIBE_TRANSACTIONS: Final = 65
    LIST_TRANSACTIONS: Final = 66
    ALLOCATE_PRODUCER_IDS: Final = 67
    CONSUMER_GROUP_HEARTBEAT: Final = 68
    CONSUMER_GROUP_DESCRIBE: Final = 69
    CONTROLLER_REGISTRATION: Final = 70
    ASSIGN_REPLICAS_TO_DIRS: Final = 73
    LIST_CONFIG_RESOURCES: Final = 74
    DESCRIBE_TOPIC_PARTITIONS: Final = 75
    SHARE_GROUP_HEARTBEAT: Final = 76
    SHARE_GROUP_DESCRIBE: Final = 77
    SHARE_FETCH: Final = 78
    SHARE_ACKNOWLEDGE: Final = 79
    ADD_RAFT_VOTER: Final = 80
    REMOVE_RAFT_VOTER: Final = 81
    UPDATE_RAFT_VOTER: Final = 82
    INITIALIZE_SHARE_GROUP_STATE: Final = 83
    READ_SHARE_GROUP_STATE: Final = 84
    WRITE_SHARE_GROUP_STATE: Final = 85
    DELETE_SHARE_GROUP_STATE: Final = 86
    READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
    DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
    ALTER_SHARE_GROUP_OFFSETS: Final = 91
    DELETE_SHARE_GROUP_OFFSETS: Final = 92


class Requirement(NamedTuple):
    """The rights that a client needs for an API (docs/internals/authorization.md)."""

    rights: tuple[Right, ...]
    is_whole: bool = False
    """Any of the rights allows the whole request, and the dispatcher checks it. Otherwise the handler checks names."""


NOTHING: Final = Requirement(())
OWNERSHIP: Final = Requirement(())
"""No ACL decides: the handler checks that the client owns what it changes."""


def whole(*operations: str) -> Requirement:
    """Require one of these operations on the cluster, for the whole request."""
    return Requirement(tuple(right(f"CLUSTER {operation}") for operation in operations), is_whole=True)


def named(*rights: str) -> Requirement:
    """Require rights on the resources that the request names; the handler checks them."""
    return Requirement(tuple(map(right, rights)))


_NODES: Final = whole("CLUSTER_ACTION")


class Api(NamedTuple):
    """One served API."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    requires: Requirement
    """What a client needs to be allowed. It has no default: an API that nobody guards is not served."""
    hot: bool = False
    """Its handler is called with the frame itself and decodes it with a module of `wire/hot/`."""
    accepted_from: int = 0
    """Lower versions are advertised and rejected."""
    hand_written: bool = False
    """`codec.py` decodes it with a module of `wire/hot/` instead of a schema."""
    forwarded: bool = False
    """Only the active controller decides on it: other nodes forward it there (KIP-590)."""
    changes_metadata: bool = True
    """After forwarding it, a node waits until it has applied the controller's changes."""
    between_nodes: bool = False
    """Only other nodes of the cluster send it. It is answered before the node is ready for clients."""
    between_nodes_from: int | None = None
    """The first version that only other nodes of the cluster send."""

    @property
    def module(self) -> str:
        """Return the module in `handlers/` that answers it: the name in snake case."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()

    def accepts(self, version: int) -> bool:
        return max(self.min_version, self.accepted_from) <= version <= self.max_version

    def is_for_nodes(self, version: int) -> bool:
        return self.between_nodes or (self.between_nodes_from is not None and version >= self.between_nodes_from)

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from


_ROWS: Final = (
    # Produce 0-2 are advertised and rejected: librdkafka derives the compression codecs of a broker from v0,
    # and without it compresses nothing (KAFKA-18659).
    Api(ApiKey.PRODUCE, "Produce", 0, 13, flexible_from=9,
        requires=named("TOPIC WRITE", "TRANSACTIONAL_ID WRITE"), hot=True, accepted_from=3),
    Api(ApiKey.FETCH, "Fetch", 4, 18, flexible_from=12,
        requires=named("TOPIC READ", "CLUSTER CLUSTER_ACTION"), hot=True),
    Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, flexible_from=6, requires=named("TOPIC DESCRIBE")),
    Api(ApiKey.METADATA, "Metadata", 0, 13, flexible_from=9, requires=named("TOPIC DESCRIBE")),
    Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, flexible_from=8,
        requires=named("GROUP READ", "TOPIC READ"), hot=True, hand_written=True),
    Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, flexible_from=6,
        requires=named("GROUP DESCRIBE", "TOPIC DESCRIBE"), hand_written=True),
    Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, flexible_from=3,
        requires=named("GROUP DESCRIBE", "TRANSACTIONAL_ID DESCRIBE", "CLUSTER CLUSTER_ACTION")),
    Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, flexible_from=6, requires=named("GROUP READ")),
    Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, flexible_from=4, requires=named("GROUP READ"), hand_written=True),
    Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, flexible_from=4, requires=named("GROUP READ")),
    Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, flexible_from=4, requires=named("GROUP READ")),
    Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, flexible_from=5, requires=named("GROUP DESCRIBE")),
    Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, flexible_from=3, requires=named("GROUP DESCRIBE", "CLUSTER DESCRIBE")),
    # Before authentication, server/authentication.py answers these two; handlers refuse them on other connections.
    Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, flexible_from=2, requires=NOTHING),
    Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, flexible_from=3, requires=NOTHING),
    Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, flexible_from=5,
        requires=named("TOPIC CREATE", "CLUSTER CREATE"), forwarded=True),
    Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, flexible_from=4,
        requires=named("TOPIC DELETE", "CLUSTER DELETE"), forwarded=True),
    Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, flexible_from=2, requires=named("TOPIC DELETE")),
    # v6 is the unstable two-phase commit: not advertised.
    Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, flexible_from=2,
        requires=named("TRANSACTIONAL_ID WRITE", "CLUSTER IDEMPOTENT_WRITE")),
    Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, flexible_from=4,
        requires=named("TOPIC DESCRIBE", "CLUSTER CLUSTER_ACTION")),
    # Versions 4 and later are for brokers: many transactions in one request.
    Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, flexible_from=3,
        requires=named("TRANSACTIONAL_ID WRITE", "TOPIC WRITE", "CLUSTER CLUSTER_ACTION"), between_nodes_from=4),
    Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, flexible_from=3,
        requires=named("TRANSACTIONAL_ID WRITE", "GROUP READ")),
    Api(ApiKey.END_TXN, "EndTxn", 0, 5, flexible_from=3, requires=named("TRANSACTIONAL_ID WRITE")),
    Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, flexible_from=1, requires=whole("ALTER", "CLUSTER_ACTION")),
    Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, flexible_from=3,
        requires=named("TRANSACTIONAL_ID WRITE", "GROUP READ", "TOPIC READ")),
    Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, flexible_from=2, requires=whole("DESCRIBE")),
    Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, flexible_from=2, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, flexible_from=2, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, flexible_from=4,
        requires=named("TOPIC DESCRIBE_CONFIGS", "GROUP DESCRIBE_CONFIGS", "CLUSTER DESCRIBE_CONFIGS")),
    Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, flexible_from=2,
        requires=named("TOPIC ALTER_CONFIGS", "GROUP ALTER_CONFIGS", "CLUSTER ALTER_CONFIGS"), forwarded=True),
    Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, flexible_from=2, requires=whole("ALTER")),
    Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, flexible_from=2, requires=whole("DESCRIBE")),
    Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, flexible_from=2, requires=NOTHING),
    Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, flexible_from=2,
        requires=named("TOPIC ALTER"), forwarded=True),
    Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, flexible_from=2,
        requires=named("USER CREATE_TOKENS"), forwarded=True),
    Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, flexible_from=2,
        requires=OWNERSHIP, forwarded=True),
    Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, flexible_from=2,
        requires=OWNERSHIP, forwarded=True),
    Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, flexible_from=2,
        requires=named("DELEGATION_TOKEN DESCRIBE", "USER DESCRIBE_TOKENS")),
    Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, flexible_from=2, requires=named("GROUP DELETE")),
    Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, flexible_from=2, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, flexible_from=1,
        requires=named("TOPIC ALTER_CONFIGS", "GROUP ALTER_CONFIGS", "CLUSTER ALTER_CONFIGS"), forwarded=True),
    Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, flexible_from=0,
        requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, flexible_from=0,
        requires=whole("DESCRIBE"), forwarded=True, changes_metadata=False),
    # It has no flexible version.
    Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, flexible_from=1, requires=named("GROUP DELETE", "TOPIC READ")),
    Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, flexible_from=1,
        requires=whole("DESCRIBE_CONFIGS")),
    Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, flexible_from=1,
        requires=whole("ALTER_CONFIGS"), forwarded=True),
    Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, flexible_from=0,
        requires=whole("DESCRIBE")),
    Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, flexible_from=0,
        requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.VOTE, "Vote", 0, 2, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.BEGIN_QUORUM_EPOCH, "BeginQuorumEpoch", 0, 1, flexible_from=1, requires=_NODES, between_nodes=True),
    Api(ApiKey.END_QUORUM_EPOCH, "EndQuorumEpoch", 0, 1, flexible_from=1, requires=_NODES, between_nodes=True),
    Api(ApiKey.DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, flexible_from=0,
        requires=whole("DESCRIBE"), forwarded=True, changes_metadata=False),
    Api(ApiKey.ALTER_PARTITION, "AlterPartition", 2, 3, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, flexible_from=0, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.ENVELOPE, "Envelope", 0, 0, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.FETCH_SNAPSHOT, "FetchSnapshot", 0, 1, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, flexible_from=0, requires=NOTHING),
    Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, flexible_from=0, requires=named("TOPIC READ")),
    Api(ApiKey.BROKER_REGISTRATION, "BrokerRegistration", 0, 4, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.BROKER_HEARTBEAT, "BrokerHeartbeat", 0, 2, flexible_from=0, requires=_NODES, between_nodes=True),
    Api(ApiKey.UNREGISTER_BROKER, "UnregisterBroker", 0, 0, flexible_from=0, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, flexible_from=0,
        requires=named("TRANSACTIONAL_ID DESCRIBE", "TOPIC DESCRIBE")),
    Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, flexible_from=0,
        requires=named("TRANSACTIONAL_ID DESCRIBE")),
    Api(ApiKey.ALLOCATE_PRODUCER_IDS, "AllocateProducerIds", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, flexible_from=0,
        requires=named("GROUP READ", "TOPIC DESCRIBE"), hand_written=True),
    Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, flexible_from=0,
        requires=named("GROUP DESCRIBE", "TOPIC DESCRIBE")),
    Api(ApiKey.CONTROLLER_REGISTRATION, "ControllerRegistration", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, "AssignReplicasToDirs", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, flexible_from=0, requires=whole("DESCRIBE_CONFIGS")),
    Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, flexible_from=0,
        requires=named("TOPIC DESCRIBE")),
    Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, flexible_from=0,
        requires=named("GROUP READ", "TOPIC DESCRIBE"), accepted_from=1),
    Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, flexible_from=0,
        requires=named("GROUP DESCRIBE", "TOPIC DESCRIBE"), accepted_from=1),
    Api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, flexible_from=0,
        requires=named("GROUP READ", "TOPIC READ"), accepted_from=1),
    Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, flexible_from=0,
        requires=named("GROUP READ", "TOPIC READ"), accepted_from=1),
    Api(ApiKey.ADD_RAFT_VOTER, "AddRaftVoter", 0, 1, flexible_from=0, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.REMOVE_RAFT_VOTER, "RemoveRaftVoter", 0, 0, flexible_from=0, requires=whole("ALTER"), forwarded=True),
    Api(ApiKey.UPDATE_RAFT_VOTER, "UpdateRaftVoter", 0, 0, flexible_from=0, requires=_NODES, forwarded=True),
    Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, flexible_from=0,
        requires=_NODES, between_nodes=True),
    Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, flexible_from=0,
        requires=named("GROUP DESCRIBE", "TOPIC DESCRIBE")),
    Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, flexible_from=0,
        requires=named("GROUP READ", "TOPIC READ")),
    Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, flexible_from=0,
        requires=named("GROUP DELETE", "TOPIC READ")),
)  # fmt: skip

APIS: Final[Mapping[int, Api]] = MappingProxyType({row.key: row for row in _ROWS})
