"""The declarations of all tables, used by the engines, `penstock sql --tables` and the documentation."""

from typing import Final

from penstock.sqlview import groups, producers, shares, topics
from penstock.sqlview.table import Table

TEXT, NUMBER, REAL, FLAG = "TEXT", "BIGINT", "DOUBLE", "BOOLEAN"

TABLES: Final = (
    Table(
        name="Topic",
        columns={
            "id": TEXT,
            "name": TEXT,
            "partition_count": NUMBER,
            "replication_factor": NUMBER,
            "retention_ms": NUMBER,
        },
        doc="Topics; retention_ms is the effective value, -1 for no limit.",
        read=topics.topics,
    ),
    Table(
        name="ConsumerGroup",
        columns={"id": TEXT, "group_id": TEXT, "protocol": TEXT},
        doc="Groups; the protocol is the assignor that the members agreed on.",
        read=groups.consumer_groups,
    ),
    Table(
        name="PartitionAssignment",
        columns={"group_id": TEXT, "topic": TEXT, "partition": NUMBER, "consumer_id": TEXT, "offset": NUMBER},
        doc="The member of a group that owns a partition (or NULL) and the committed offset (or NULL).",
        read=groups.assignments,
    ),
    Table(
        name="Partition",
        columns={
            "topic": TEXT,
            "partition": NUMBER,
            "leader": NUMBER,
            "leader_epoch": NUMBER,
            "replicas": TEXT,
            "isr": TEXT,
            "elr": TEXT,
            "offline": TEXT,
            "earliest": NUMBER,
            "latest": NUMBER,
            "bytes": NUMBER,
            "under_replicated": FLAG,
        },
        doc="Partitions with leader, replicas, offsets and size.",
        read=topics.partitions,
    ),
    Table(
        name="Replica",
        columns={
            "topic": TEXT,
            "partition": NUMBER,
            "broker": NUMBER,
            "is_leader": FLAG,
            "in_sync": FLAG,
            "folder": TEXT,
            "bytes": NUMBER,
            "offset_lag": NUMBER,
        },
        doc="Replicas of partitions, with their directory.",
        read=topics.replicas,
    ),
    Table(
        name="Broker",
        columns={"id": NUMBER, "host": TEXT, "port": NUMBER, "rack": TEXT, "is_controller": FLAG, "is_fenced": FLAG},
        doc="Registered brokers.",
        read=topics.brokers,
    ),
    Table(
        name="Config",
        columns={
            "kind": TEXT,
            "resource": TEXT,
            "name": TEXT,
            "value": TEXT,
            "source": TEXT,
            "read_only": FLAG,
            "is_sensitive": FLAG,
        },
        doc="Effective settings of topics and brokers, and their source.",
        read=topics.configs,
    ),
    Table(
        name="GroupState",
        columns={
            "group_id": TEXT,
            "type": TEXT,
            "state": TEXT,
            "protocol": TEXT,
            "coordinator": NUMBER,
            "members": NUMBER,
        },
        doc="Groups with state, coordinator and number of members.",
        read=groups.group_states,
    ),
    Table(
        name="Member",
        columns={
            "group_id": TEXT,
            "member_id": TEXT,
            "instance_id": TEXT,
            "client_id": TEXT,
            "host": TEXT,
            "partitions": NUMBER,
        },
        doc="Members of groups.",
        read=groups.members,
    ),
    Table(
        name="Lag",
        columns={
            "group_id": TEXT,
            "topic": TEXT,
            "partition": NUMBER,
            "consumer_id": TEXT,
            "committed": NUMBER,
            "latest": NUMBER,
            "lag": NUMBER,
        },
        doc="Lag of groups in each partition with a committed offset.",
        read=groups.lag,
    ),
    Table(
        name="ShareGroup",
        columns={"group_id": TEXT, "state": TEXT, "coordinator": NUMBER, "members": NUMBER},
        doc="Share groups with state, coordinator and number of members.",
        read=shares.share_groups,
    ),
    Table(
        name="SharePartition",
        columns={
            "group_id": TEXT,
            "topic": TEXT,
            "partition": NUMBER,
            "start_offset": NUMBER,
            "lag": NUMBER,
            "members": NUMBER,
        },
        doc="Partitions of share groups: start offset, unfinished records, and how many members read them.",
        read=shares.share_partitions,
    ),
    Table(
        name="InFlightRecord",
        columns={
            "group_id": TEXT,
            "topic": TEXT,
            "partition": NUMBER,
            "first_offset": NUMBER,
            "last_offset": NUMBER,
            "state": TEXT,
            "delivery_count": NUMBER,
            "member_id": TEXT,
            "lock_left_ms": NUMBER,
            "delay_left_ms": NUMBER,
        },
        doc="Records of share groups in flight, by range, and their holder. Needs metrics.listener on every broker.",
        read=shares.in_flight_records,
    ),
    Table(
        name="ProducerTransaction",
        columns={
            "transactional_id": TEXT,
            "coordinator": NUMBER,
            "state": TEXT,
            "producer_id": NUMBER,
            "epoch": NUMBER,
            "timeout_ms": NUMBER,
            "started_ms": NUMBER,
            "partitions": TEXT,
        },
        doc="Transactional ids with their current or last transaction.",
        read=producers.transactions,
    ),
    Table(
        name="Producer",
        columns={
            "topic": TEXT,
            "partition": NUMBER,
            "producer_id": NUMBER,
            "epoch": NUMBER,
            "last_sequence": NUMBER,
            "last_timestamp_ms": NUMBER,
            "open_since_offset": NUMBER,
        },
        doc="Active producers of partitions; open_since_offset is set if a transaction is open.",
        read=producers.producers,
    ),
    Table(
        name="Quota",
        columns={"user": TEXT, "client_id": TEXT, "ip": TEXT, "name": TEXT, "value": REAL},
        doc="Client quotas; <default> applies to entities without their own quota.",
        read=topics.quotas,
    ),
)

BY_NAME: Final = {table.name.lower(): table for table in TABLES}
