"""What each API requires: one row for each request, with the rights it needs and the error without each of them.

The tests of Penstock alone (tests/security) and of both brokers side by side (tests/differential) send the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.differential.batches import batch
from tests.differential.session import Session

TOPIC, MISSING, GROUP, TXN = "rows-topic", "rows-missing", "rows-group", "rows-txn"
CONSUMERS, SHARERS = "rows-consumers", "rows-sharers"
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
CLUSTER = "kafka-cluster"
TRANSACTIONAL = 0x10

KINDS = {"topic": 2, "group": 3, "cluster": 4, "txn": 5}
OPERATIONS = {
    "all": 2, "read": 3, "write": 4, "create": 5, "delete": 6, "alter": 7, "describe": 8, "cluster_action": 9,
    "describe_configs": 10, "alter_configs": 11, "idempotent_write": 12,
}  # fmt: skip
CODES = {"topic": 29, "group": 30, "cluster": 31, "txn": 53}
HIDDEN = 0
"""The resource is left out of the response; there is no error."""

Values = Mapping[str, Any] | Callable[[Session], Mapping[str, Any]]


class Grant(NamedTuple):
    """An operation on one resource, such as `topic:rows-topic read`, and the error of a request without it."""

    kind: str
    name: str
    operation: str
    code: int

    def __str__(self) -> str:
        return f"{self.kind} {self.operation}"

    def as_acl(self, principal: str) -> dict[str, Any]:
        return {
            "resource_type": KINDS[self.kind],
            "resource_name": self.name,
            "resource_pattern_type": 3,
            "principal": principal,
            "host": "*",
            "operation": OPERATIONS[self.operation],
            "permission_type": 3,
        }


def need(text: str, *, code: int | None = None, name: str | None = None) -> Grant:
    """Return the grant for a text such as `topic read`."""
    kind, operation = text.split()
    default = {"topic": TOPIC, "group": GROUP, "cluster": CLUSTER, "txn": TXN}[kind]
    return Grant(kind, name or default, operation, CODES[kind] if code is None else code)


class Row(NamedTuple):
    """One request. Each of its needs is necessary, and all together suffice."""

    api: str
    version: int
    needs: tuple[Grant, ...]
    values: Values
    label: str = ""
    hides: str = ""
    """What a response without the right may not contain."""
    is_carried_out: bool = True
    """Whether it is also sent with all rights."""
    is_compared_when_allowed: bool = True
    """Whether Kafka's response with all rights is compared, too. The brokers set up share groups differently."""
    is_for_nodes: bool = False
    """Kafka answers it only on its controller's listener."""

    def __str__(self) -> str:
        return f"{self.api} v{self.version}{' ' + self.label if self.label else ''}"

    def request(self, session: Session) -> Mapping[str, Any]:
        """Return the fields of the request; `session` may ask for ids."""
        return self.values(session) if callable(self.values) else self.values


def _partitions(**fields: Any) -> dict[str, Any]:
    return {"name": TOPIC, "topic": TOPIC, "partitions": [{"partition_index": 0, "partition": 0, **fields}]}


def _fetch(**more: Any) -> dict[str, Any]:
    partition = {
        "partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1,
        "last_fetched_epoch": -1, "log_start_offset": -1,
    }  # fmt: skip
    return {
        "replica_id": -1, "max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [partition]}], **more,
    }  # fmt: skip


def _fetch_by_id(admin: Session) -> dict[str, Any]:
    values = _fetch()
    del values["replica_id"]
    values["topics"][0]["topic_id"] = admin.topic_id(TOPIC)
    return values


def _produce(records: bytes = b"", **more: Any) -> dict[str, Any]:
    rows = [{"index": 0, "records": records or batch(1)}]
    return {"acks": -1, "timeout": 5000, "topic_data": [{"name": TOPIC, "partition_data": rows}], **more}


def _produce_by_id(admin: Session) -> dict[str, Any]:
    values = _produce()
    values["topic_data"][0]["topic_id"] = admin.topic_id(TOPIC)
    return values


_TRANSACTION = {"transactional_id": TXN, "producer_id": 1, "producer_epoch": 0}
_IN_TRANSACTION = _produce(
    batch(1, attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0), transactional_id=TXN
)
_OFFSETS = [_partitions(committed_offset=1, committed_leader_epoch=-1, committed_metadata="")]
_MEMBER = {"group_id": GROUP, "member_id": "m", "generation_id": 1}
_JOIN = {
    "group_id": GROUP, "session_timeout": 10_000, "rebalance_timeout": 10_000, "member_id": "", "protocol_type": "x",
    "protocols": [{"name": "x", "metadata": b""}],
}  # fmt: skip
_ANY_ACL = {
    "resource_type_filter": 2, "resource_name_filter": MISSING, "pattern_type_filter": 3, "operation": 1,
    "permission_type": 1,
}  # fmt: skip
_BAD_ACL = {
    "resource_type": 2, "resource_name": "", "resource_pattern_type": 3, "principal": "User:a", "host": "*",
    "operation": 3, "permission_type": 3,
}  # fmt: skip


def _create(name: str = MISSING) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    return {"topics": [topic], "timeout": 10_000, "validate_only": True}


def _config(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}], "validate_only": True}


def _configs(api: str, version: int, operation: str, **more: Any) -> list[Row]:
    key = "cleanup.policy"
    topic = {**more, "configs": [{"name": key, "value": "delete"}]} if more else {"configuration_keys": [key]}
    other = {**more, "configs": []} if more else {"configuration_keys": ["x"]}
    return [
        Row(api, version, (need(f"topic {operation}"),), _config(2, TOPIC, **topic), "of a topic"),
        Row(api, version, (need(f"topic {operation}", name=MISSING),), _config(2, MISSING, **topic), "of no topic"),
        Row(api, version, (need(f"group {operation}"),), _config(32, GROUP, **other), "of a group"),
        Row(api, version, (need(f"cluster {operation}"),), _config(4, "1", **other), "of a broker"),
    ]


def _delete_by_id(admin: Session) -> dict[str, Any]:
    # The row must not delete the topic: a topic that occurs twice is not deleted.
    return {"topics": [{"name": None, "topic_id": admin.topic_id(TOPIC)}], "timeout": 1000}


def _subscribed(admin: Session) -> dict[str, Any]:
    """Join a group with a subscription, which a description of the group shows."""
    admin.ask(
        "consumer_group_heartbeat", 0, group_id=CONSUMERS, member_id="member", member_epoch=0, rebalance_timeout=60_000,
        subscribed_topic_names=[TOPIC], topic_partitions=[],
    )  # fmt: skip
    return {"group_ids": [CONSUMERS]}


def _sharing(admin: Session) -> dict[str, Any]:
    """Join a share group with a subscription, which a description of the group shows."""
    admin.ask(
        "share_group_heartbeat", 1, group_id=SHARERS, member_id=MEMBER, member_epoch=0, subscribed_topic_names=[TOPIC]
    )
    return {"group_ids": [SHARERS]}


def _share_fetch(admin: Session) -> dict[str, Any]:
    topics = [{"topic_id": admin.topic_id(TOPIC), "partitions": [{"partition_index": 0}]}]
    return {
        "group_id": SHARERS, "member_id": MEMBER, "share_session_epoch": 0, "max_wait": 0, "min_bytes": 0,
        "max_bytes": 1000, "max_records": 1, "batch_size": 1, "topics": topics,
    }  # fmt: skip


def _node(api: str, version: int, **values: Any) -> Row:
    return Row(api, version, (need("cluster cluster_action"),), values, is_carried_out=False, is_for_nodes=True)


ROWS: list[Row] = [
    Row("produce", 9, (need("topic write"),), _produce()),
    Row("produce", 13, (need("topic write"),), _produce_by_id, "by id"),
    Row("produce", 9, (need("txn write"), need("topic write")), _IN_TRANSACTION, "in a transaction"),
    Row("produce", 9, (need("topic write", name=MISSING),), {
        "acks": -1, "timeout": 5000,
        "topic_data": [{"name": MISSING, "partition_data": [{"index": 0, "records": batch(1)}]}],
    }, "to no topic"),
    Row("fetch", 11, (need("topic read"),), _fetch()),
    Row("fetch", 13, (need("topic read"),), _fetch_by_id, "by id"),
    Row("fetch", 11, (need("cluster cluster_action", code=29),), _fetch(replica_id=77), "as a replica"),
    Row("list_offsets", 7, (need("topic describe"),),
        {"replica_id": -1, "topics": [_partitions(timestamp=-1, current_leader_epoch=-1)]}),
    Row("metadata", 9, (need("topic describe"),), {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}),
    Row("metadata", 9, (need("topic describe", name=MISSING),),
        {"topics": [{"name": MISSING}], "allow_auto_topic_creation": False}, "of no topic"),
    Row("metadata", 12, (need("topic describe"),),
        lambda admin: {"topics": [{"topic_id": admin.topic_id(TOPIC), "name": None}]}, "by id"),
    Row("metadata", 9, (need("topic describe", code=HIDDEN),), {"topics": None}, "of all", hides=TOPIC),
    Row("offset_commit", 8, (need("group read"), need("topic read")),
        {"group_id": GROUP, "generation_id_or_member_epoch": -1, "member_id": "", "topics": _OFFSETS}),
    Row("offset_fetch", 8, (need("group describe"), need("topic describe")), {
        "groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}], "member_epoch": -1}]}),
    Row("offset_fetch", 7, (need("group describe"), need("topic describe")),
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}, "of one group"),
    Row("offset_fetch", 8, (need("group describe"), need("topic describe", code=HIDDEN)),
        {"groups": [{"group_id": GROUP, "topics": None, "member_epoch": -1}]}, "of all topics", hides=TOPIC),
    Row("find_coordinator", 4, (need("group describe"),), {"key_type": 0, "coordinator_keys": [GROUP]}),
    Row("find_coordinator", 3, (need("group describe"),), {"key_type": 0, "key": GROUP}, "of one"),
    Row("find_coordinator", 4, (need("txn describe"),), {"key_type": 1, "coordinator_keys": [TXN]}, "of a producer"),
    Row("find_coordinator", 6, (need("cluster cluster_action"),),
        {"key_type": 2, "coordinator_keys": [f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"]}, "of a share group's state",
        is_compared_when_allowed=False),
    Row("join_group", 9, (need("group read"),), _JOIN),
    Row("heartbeat", 4, (need("group read"),), _MEMBER),
    Row("leave_group", 5, (need("group read"),), {"group_id": GROUP, "members": [{"member_id": "m"}]}),
    Row("sync_group", 5, (need("group read"),), {**_MEMBER, "protocol_type": "x", "protocol_name": "x"}),
    Row("describe_groups", 5, (need("group describe"),), {"groups": [GROUP], "include_authorized_operations": True}),
    Row("list_groups", 4, (need("group describe", code=HIDDEN),), {}, hides=GROUP),
    Row("list_groups", 4, (need("cluster describe", code=HIDDEN),), {}, "with a right on the cluster", hides=GROUP),
    Row("create_topics", 7, (need("topic create", name=MISSING),), _create()),
    Row("create_topics", 7, (need("cluster create", code=29),), _create(), "with a right on the cluster"),
    Row("create_topics", 7, (need("topic create"),), _create(TOPIC), "that exists"),
    Row("delete_topics", 5, (need("topic delete", name=MISSING),), {"topic_names": [MISSING], "timeout": 1000}),
    Row("delete_topics", 5, (need("topic delete"),), {"topic_names": [TOPIC], "timeout": 1000}, "that exists",
        is_carried_out=False),
    Row("delete_topics", 5, (need("cluster delete", code=29),), {"topic_names": [MISSING], "timeout": 1000},
        "with a right on the cluster"),
    Row("delete_topics", 6, (need("topic delete"),), _delete_by_id, "by id", is_carried_out=False),
    Row("delete_records", 2, (need("topic delete"),),
        {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}], "timeout": 5000}),
    Row("init_producer_id", 4, (need("cluster idempotent_write"),), {"producer_id": -1, "producer_epoch": -1}),
    Row("init_producer_id", 4, (need("topic write", code=31),), {"producer_id": -1, "producer_epoch": -1},
        "with a right on a topic"),
    Row("init_producer_id", 4, (need("txn write", name=MISSING),), {
        "transactional_id": MISSING, "transaction_timeout": 10_000, "producer_id": -1, "producer_epoch": -1,
    }, "of a transaction"),
    Row("offset_for_leader_epoch", 4, (need("topic describe"),),
        {"replica_id": -1, "topics": [_partitions(current_leader_epoch=-1, leader_epoch=0)]}),
    Row("offset_for_leader_epoch", 4, (need("cluster cluster_action", code=29),),
        {"replica_id": -1, "topics": [_partitions(current_leader_epoch=-1, leader_epoch=0)]}, "as a node"),
    Row("add_partitions_to_txn", 3, (need("txn write"), need("topic write")), {
        "v3_and_below_transactional_id": TXN, "v3_and_below_producer_id": 1, "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": [{"name": TOPIC, "partitions": [0]}],
    }),
    Row("add_partitions_to_txn", 4, (need("cluster cluster_action"),), {
        "transactions": [{**_TRANSACTION, "verify_only": True, "topics": [{"name": TOPIC, "partitions": [0]}]}],
    }, "of a node"),
    Row("add_offsets_to_txn", 3, (need("txn write"), need("group read")), {**_TRANSACTION, "group_id": GROUP}),
    Row("end_txn", 3, (need("txn write"),), {**_TRANSACTION, "committed": True}),
    Row("write_txn_markers", 1, (need("cluster alter"),),
        {"markers": [{"producer_id": 1, "topics": [{"name": MISSING, "partition_indexes": [0]}]}]}),
    Row("write_txn_markers", 1, (need("cluster cluster_action"),),
        {"markers": [{"producer_id": 1, "topics": [{"name": MISSING, "partition_indexes": [0]}]}]}, "of a node"),
    Row("txn_offset_commit", 3, (need("txn write"), need("group read"), need("topic read")),
        {**_TRANSACTION, "group_id": GROUP, "generation_id": -1, "member_id": "", "topics": _OFFSETS}),
    Row("describe_acls", 3, (need("cluster describe"),), _ANY_ACL),
    Row("create_acls", 3, (need("cluster alter"),), {"creations": [_BAD_ACL]}),
    Row("delete_acls", 3, (need("cluster alter"),), {"filters": [_ANY_ACL]}),
    *_configs("describe_configs", 4, "describe_configs"),
    *_configs("alter_configs", 2, "alter_configs", configs=True),
    *_configs("incremental_alter_configs", 1, "alter_configs", configs=True),
    Row("alter_replica_log_dirs", 2, (need("cluster alter"),),
        {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]}),
    Row("describe_log_dirs", 4, (need("cluster describe"),), {"topics": []}),
    Row("create_partitions", 3, (need("topic alter"),),
        {"topics": [{"name": TOPIC, "count": 2, "assignments": None}], "timeout": 1000, "validate_only": True}),
    Row("create_partitions", 3, (need("topic alter", name=MISSING),),
        {"topics": [{"name": MISSING, "count": 2, "assignments": None}], "timeout": 1000}, "of no topic"),
    Row("delete_groups", 2, (need("group delete", name=MISSING),), {"groups_names": [MISSING]}),
    Row("elect_leaders", 2, (need("cluster alter"),),
        {"election_type": 0, "topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout": 1000}),
    Row("alter_partition_reassignments", 0, (need("cluster alter"),), {
        "timeout": 1000, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": None}]}],
    }),
    Row("list_partition_reassignments", 0, (need("cluster describe"),),
        {"timeout": 1000, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}),
    Row("offset_delete", 0, (need("group delete"), need("topic read")),
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [{"partition_index": 7}]}]}),
    Row("describe_client_quotas", 1, (need("cluster describe_configs"),), {"components": []}),
    Row("alter_client_quotas", 1, (need("cluster alter_configs"),), {
        "entries": [{"entity": [{"entity_type": "user", "entity_name": "u"}],
                     "ops": [{"key": "producer_byte_rate", "value": 1.0}]}],
        "validate_only": True,
    }),
    Row("describe_user_scram_credentials", 0, (need("cluster describe"),), {"users": [{"name": "nobody"}]}),
    Row("alter_user_scram_credentials", 0, (need("cluster alter"),),
        {"deletions": [{"name": "nobody", "mechanism": 1}]}),
    Row("describe_quorum", 1, (need("cluster describe"),),
        {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}),
    Row("update_features", 1, (need("cluster alter"),),
        {"timeout": 1000, "feature_updates": [], "validate_only": True}),
    Row("describe_producers", 0, (need("topic read"),), {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}),
    Row("unregister_broker", 0, (need("cluster alter"),), {"broker_id": 99}),
    Row("describe_transactions", 0, (need("txn describe"), need("topic describe", code=HIDDEN)),
        {"transactional_ids": [TXN]}, hides=TOPIC),
    Row("list_transactions", 0, (need("txn describe", code=HIDDEN),), {}, hides=TXN),
    Row("consumer_group_heartbeat", 0, (need("group read"), need("topic describe")), {
        "group_id": GROUP, "member_id": "m", "member_epoch": 5, "rebalance_timeout": 1000,
        "subscribed_topic_names": [TOPIC], "topic_partitions": [],
    }),
    Row("consumer_group_describe", 0, (need("group describe", name=CONSUMERS), need("topic describe")), _subscribed),
    Row("list_config_resources", 1, (need("cluster describe_configs"),), {"resource_types": [16]}),
    Row("describe_topic_partitions", 0, (need("topic describe"),),
        {"topics": [{"name": TOPIC}], "response_partition_limit": 10}),
    Row("describe_topic_partitions", 0, (need("topic describe", code=HIDDEN),),
        {"topics": [], "response_partition_limit": 1000}, "of all", hides=TOPIC),
    Row("add_raft_voter", 0, (need("cluster alter"),),
        {"cluster_id": "x", "timeout": 1000, "voter_id": 99, "voter_directory_id": None}, is_carried_out=False),
    Row("remove_raft_voter", 0, (need("cluster alter"),), {"cluster_id": "x", "voter_id": 99}, is_carried_out=False),
    _node("vote", 1),
    _node("begin_quorum_epoch", 1),
    _node("end_quorum_epoch", 1),
    _node("alter_partition", 3),
    _node("envelope", 0),
    _node("fetch_snapshot", 0),
    _node("broker_registration", 1),
    _node("broker_heartbeat", 1),
    _node("allocate_producer_ids", 0),
    _node("controller_registration", 0),
    _node("assign_replicas_to_dirs", 0),
    _node("update_raft_voter", 0, cluster_id="x"),
    *(
        _node(f"{name}_share_group_state", 0, topics=[{"partitions": [{"partition": 0}]}])
        for name in ("initialize", "read", "write", "delete")
    ),
    _node("read_share_group_state_summary", 0, topics=[{"partitions": [{"partition": 0}]}]),
    Row("share_group_heartbeat", 1, (need("group read"), need("topic describe")), {
        "group_id": GROUP, "member_id": "m", "member_epoch": 5, "subscribed_topic_names": [TOPIC],
    }),
    Row("share_group_describe", 1, (need("group describe", name=SHARERS), need("topic describe")), _sharing,
        is_compared_when_allowed=False),
    Row("share_fetch", 1, (need("group read", name=SHARERS), need("topic read")), _share_fetch,
        is_compared_when_allowed=False),
    Row("share_acknowledge", 1, (need("group read", name=SHARERS),),
        {"group_id": SHARERS, "member_id": MEMBER, "share_session_epoch": 1, "topics": []},
        is_compared_when_allowed=False),
    Row("describe_share_group_offsets", 0, (need("group describe", name=SHARERS), need("topic describe")), {
        "groups": [{"group_id": SHARERS, "topics": [{"topic_name": TOPIC, "partitions": [0]}]}],
    }, is_compared_when_allowed=False),
    Row("alter_share_group_offsets", 0, (need("group read", name=MISSING), need("topic read")), {
        "group_id": MISSING, "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 7}]}],
    }),
    Row("delete_share_group_offsets", 0, (need("group delete", name=MISSING),),
        {"group_id": MISSING, "topics": [{"topic_name": TOPIC}]}, is_carried_out=False),
]  # fmt: skip


def prepare(admin: Session) -> None:
    """Create what the rows name: a topic with a record, a group with an offset and a transactional id."""
    admin.ask(
        "create_topics", 7, topics=[{"name": TOPIC, "num_partitions": 1, "replication_factor": 1}], timeout=10_000
    )
    admin.settle(TOPIC)
    admin.ask("produce", 9, **_produce())
    for kind, key in ((0, GROUP), (1, TXN)):
        admin.until(
            lambda answer: answer["coordinators"][0]["error_code"] == "0 none",
            "find_coordinator", 4, key_type=kind, coordinator_keys=[key],
        )  # fmt: skip
    commit: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": _OFFSETS,
    }
    admin.until(
        lambda answer: answer["topics"][0]["partitions"][0]["error_code"] == "0 none", "offset_commit", 8, **commit
    )
    begin: dict[str, Any] = {
        "transactional_id": TXN,
        "transaction_timeout": 600_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    begun = admin.until(lambda answer: answer["error_code"] == "0 none", "init_producer_id", 4, **begin)
    admin.ask(
        "add_partitions_to_txn", 3, v3_and_below_transactional_id=TXN,
        v3_and_below_producer_id=begun["producer_id"], v3_and_below_producer_epoch=begun["producer_epoch"],
        v3_and_below_topics=[{"name": TOPIC, "partitions": [0]}],
    )  # fmt: skip
    admin.steps.clear()


def grant(admin: Session, principal: str, *grants: Grant) -> None:
    """Give a user these rights and no others."""
    everything: dict[str, Any] = {
        "resource_type_filter": 1,
        "pattern_type_filter": 1,
        "operation": 1,
        "permission_type": 1,
    }
    deleted = admin.ask("delete_acls", 3, filters=[{**everything, "principal_filter": principal}])
    assert isinstance(deleted, dict) and deleted["filter_results"][0]["error_code"] == "0 none", deleted
    if grants:
        created = admin.ask("create_acls", 3, creations=[each.as_acl(principal) for each in grants])
        assert isinstance(created, dict), created
        assert all(each["error_code"] == "0 none" for each in created["results"]), created
    # Kafka's broker applies what its controller has committed a little later.
    admin.until(
        lambda answer: sum(len(each["acls"]) for each in answer["resources"]) == len(set(grants)),
        "describe_acls", 3, **everything, principal_filter=principal,
    )  # fmt: skip
