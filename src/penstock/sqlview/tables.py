"""Every table, declared once: the engine makes them, `penstock sql --tables` and the docs print them."""

from typing import Final

from penstock.sqlview import groups, producers, topics
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
        doc="Each topic; retention_ms is what is in force, -1 for ever.",
        read=topics.topics,
    ),
    Table(
        name="ConsumerGroup",
        columns={"id": TEXT, "group_id": TEXT, "protocol": TEXT},
        doc="Each group; the protocol is the assignor that its members agreed on.",
        read=groups.consumer_groups,
    ),
    Table(
        name="PartitionAssignment",
        columns={"group_id": TEXT, "topic": TEXT, "partition": NUMBER, "consumer_id": TEXT, "offset": NUMBER},
        doc="Who in a group reads a partition (NULL: nobody now) and the offset committed for it (NULL: none yet).",
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
        doc="Each partition: who leads and follows, which offsets it holds, its size.",
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
        doc="Each copy of each partition, with the folder that holds it.",
        read=topics.replicas,
    ),
    Table(
        name="Broker",
        columns={"id": NUMBER, "host": TEXT, "port": NUMBER, "rack": TEXT, "is_controller": FLAG, "is_fenced": FLAG},
        doc="Each registered broker.",
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
        doc="What is in force for each topic and broker, and where it comes from.",
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
        doc="Each group's state, its coordinator and how many members it has.",
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
        doc="Each consumer of each group.",
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
        doc="How many records each group is behind in each partition that it has committed.",
        read=groups.lag,
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
        doc="Each transactional id and its present or last transaction.",
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
        doc="The producers that a partition remembers; open_since_offset where a transaction is open.",
        read=producers.producers,
    ),
    Table(
        name="Quota",
        columns={"user": TEXT, "client_id": TEXT, "ip": TEXT, "name": TEXT, "value": REAL},
        doc="Each client quota; <default> stands for all that have none of their own.",
        read=topics.quotas,
    ),
)

BY_NAME: Final = {table.name.lower(): table for table in TABLES}
