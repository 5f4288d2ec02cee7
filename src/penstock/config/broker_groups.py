"""The broker's options on groups, offsets, transactions and share groups. Only declarations."""

from functools import partial
from typing import Final

from penstock.config.option import (
    DAY_MS,
    HOUR_MS,
    INT_MAX,
    KIB,
    MIB,
    MINUTE_MS,
    SECOND_MS,
    Option,
    Value,
    declare,
    invalid,
)

_flag = partial(declare, "boolean")
_int = partial(declare, "int")
_long = partial(declare, "long")
_short = partial(declare, "short")
_text = partial(declare, "string")
_list = partial(declare, "list")


def check_migration_policy(name: str, value: Value) -> None:
    """Pass one of the four words in any case."""
    if str(value).upper() not in ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"):
        raise invalid(
            name, value, "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"
        )


COORDINATOR_OPTIONS: Final[tuple[Option, ...]] = (
    # Classic groups
    _int("group.initial.rebalance.delay.ms", 3 * SECOND_MS,
         doc="How long an empty group waits for more members before its first rebalance."),
    _int("group.min.session.timeout.ms", 6 * SECOND_MS, "The shortest session timeout a member may ask for."),
    _int("group.max.session.timeout.ms", 30 * MINUTE_MS, "The longest session timeout a member may ask for."),
    _int("group.max.size", 1000, "How many members a classic group may have. Kafka's default sets no bound.", least=1),
    _long("group.metadata.memory.max.bytes", 256 * MIB, least=0, own=True,
          doc="How much memory the metadata of all members of classic groups may take on this node. Beyond it, a "
              "member that joins with more than 4 KiB is answered COORDINATOR_NOT_AVAILABLE."),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
          choices=("consumer", "classic", "share", "streams"),
          doc="The group protocols that are served. `classic` always is, `consumer` (KIP-848) if it is named here; "
              "`share` and `streams` are taken and not served yet."),
    _int("group.coordinator.append.linger.ms", -1, least=-1,
         doc="How long a coordinator gathers records before it writes them; -1 follows the load."),
    _int("group.coordinator.cached.buffer.max.bytes", 1 * MIB + 12, least=512 * KIB, scope="cluster-wide",
         doc="The largest buffer that a coordinator keeps for its next write."),
    # Consumer groups (KIP-848)
    _list("group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
          doc="The assignors of the server, the default one first."),
    _int("group.consumer.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member without a heartbeat for this long is out."),
    _int("group.consumer.min.session.timeout.ms", 45 * SECOND_MS, "The shortest session timeout of a group.", least=1),
    _int("group.consumer.max.session.timeout.ms", 60 * SECOND_MS, "The longest session timeout of a group.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="How often members are told to send heartbeats."),
    _int("group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The shortest heartbeat interval of a group."),
    _int("group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The longest heartbeat interval of a group."),
    _int("group.consumer.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The least time between two assignments of a group."),
    _int("group.consumer.min.assignment.interval.ms", 0, "The shortest assignment interval of a group.", least=0),
    _int("group.consumer.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The longest assignment interval of a group."),
    _int("group.consumer.max.size", INT_MAX, "How many members a consumer group may have.", least=1),
    _text("group.consumer.migration.policy", "bidirectional", check=check_migration_policy,
          doc="Whether groups may move online between the classic and the consumer protocol: `upgrade`, `downgrade`, "
              "`bidirectional` or `disabled`."),
    _int("group.consumer.regex.refresh.interval.ms", 10 * MINUTE_MS, least=10 * SECOND_MS, internal=True,
         doc="How often the topics that a subscribed pattern matches are looked up again."),
    # Share groups (KIP-932)
    _list("group.share.assignors", ("simple",), "The assignors of share groups, the default one first."),
    _int("group.share.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member without a heartbeat for this long is out."),
    _int("group.share.min.session.timeout.ms", 45 * SECOND_MS, "The shortest session timeout of a group.", least=1),
    _int("group.share.max.session.timeout.ms", 60 * SECOND_MS, "The longest session timeout of a group.", least=1),
    _int("group.share.heartbeat.interval.ms", 5 * SECOND_MS, "How often members are told to send heartbeats.", least=1),
    _int("group.share.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The shortest heartbeat interval of a group."),
    _int("group.share.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The longest heartbeat interval of a group."),
    _int("group.share.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The least time between two assignments of a group."),
    _int("group.share.min.assignment.interval.ms", 0, "The shortest assignment interval of a group.", least=0),
    _int("group.share.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The longest assignment interval of a group."),
    _int("group.share.max.size", 200, "How many members a share group may have.", least=1, most=1000),
    _int("group.share.max.share.sessions", 2000, "How many share sessions are kept.", least=1),
    _int("group.share.delivery.count.limit", 5, least=2, most=10,
         doc="How often a record is delivered before it is given up."),
    _int("group.share.min.delivery.count.limit", 2, "The lowest delivery limit of a group.", least=2, most=5),
    _int("group.share.max.delivery.count.limit", 10, "The highest delivery limit of a group.", least=5, most=25),
    _int("group.share.record.lock.duration.ms", 30 * SECOND_MS, least=SECOND_MS, most=HOUR_MS,
         doc="How long a record stays locked to the member that acquired it."),
    _int("group.share.min.record.lock.duration.ms", 15 * SECOND_MS, least=SECOND_MS, most=30 * SECOND_MS,
         doc="The shortest lock of a group."),
    _int("group.share.max.record.lock.duration.ms", 60 * SECOND_MS, least=30 * SECOND_MS, most=HOUR_MS,
         doc="The longest lock of a group."),
    _int("group.share.partition.max.record.locks", 2000, least=100, most=10_000,
         doc="How many records of a partition may be locked at once."),
    _int("group.share.min.partition.max.record.locks", 100, least=100, most=2000,
         doc="The lowest bound on locks of a group."),
    _int("group.share.max.partition.max.record.locks", 4000, least=2000, most=10_000,
         doc="The highest bound on locks of a group."),
    _int("share.coordinator.append.linger.ms", -1, least=-1,
         doc="How long the share coordinator gathers records before it writes them; -1 follows the load."),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, least=0, most=500,
         doc="How many updates lie between two snapshots of a share partition's state."),
    _int("share.coordinator.write.timeout.ms", 5 * SECOND_MS, "How long a write of share state may take.", least=1),
    _int("share.coordinator.state.topic.num.partitions", 50, "Partitions of `__share_group_state`.", least=1),
    _short("share.coordinator.state.topic.replication.factor", 1, least=1,
           doc="Replicas of `__share_group_state`. 3 with three or more controllers, as in Kafka."),
    _short("share.coordinator.state.topic.min.isr", 1, least=1,
           doc="min.insync.replicas of `__share_group_state`. 2 with three or more controllers, as in Kafka."),
    _int("share.coordinator.state.topic.segment.bytes", 100 * MIB, "segment.bytes of `__share_group_state`.", least=1),
    _int("share.coordinator.state.topic.compression.codec", 0, "The codec of `__share_group_state`, by its number."),
    # Streams groups
    _int("group.streams.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member without a heartbeat for this long is out."),
    _int("group.streams.min.session.timeout.ms", 45 * SECOND_MS, "The shortest session timeout of a group.", least=1),
    _int("group.streams.max.session.timeout.ms", 60 * SECOND_MS, "The longest session timeout of a group.", least=1),
    _int("group.streams.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="How often members are told to send heartbeats."),
    _int("group.streams.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The shortest heartbeat interval of a group."),
    _int("group.streams.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The longest heartbeat interval of a group."),
    _int("group.streams.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The least time between two assignments of a group."),
    _int("group.streams.min.assignment.interval.ms", 0, "The shortest assignment interval of a group.", least=0),
    _int("group.streams.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The longest assignment interval of a group."),
    _int("group.streams.initial.rebalance.delay.ms", 3 * SECOND_MS, least=0,
         doc="How long a new group waits for more members."),
    _int("group.streams.num.standby.replicas", 0, "Standby copies of a task's state.", least=0),
    _int("group.streams.max.standby.replicas", 2, "The most standby copies of a group.", least=0),
    _int("group.streams.max.size", INT_MAX, "How many members a streams group may have.", least=1),
    # Offsets
    _int("offset.metadata.max.bytes", 4096, "The longest note that a client may attach to a committed offset."),
    _int("offsets.commit.timeout.ms", 5 * SECOND_MS, least=1,
         doc="How long a commit of offsets may wait for its replicas."),
    _int("offsets.retention.minutes", 7 * 24 * 60, "How long the offsets of an empty group are kept.", least=1),
    _long("offsets.retention.check.interval.ms", 10 * MINUTE_MS, "How often expired offsets are looked for.", least=1),
    _int("offsets.load.buffer.size", 5 * MIB, least=1,
         doc="How much of `__consumer_offsets` is read at once when it is loaded."),
    _int("offsets.topic.num.partitions", 50, "Partitions of `__consumer_offsets`.", least=1),
    _short("offsets.topic.replication.factor", 1, least=1,
           doc="Replicas of `__consumer_offsets`. 3 with three or more controllers, as in Kafka; a single node cannot "
               "give more than 1."),
    _int("offsets.topic.segment.bytes", 100 * MIB, "segment.bytes of `__consumer_offsets`.", least=1),
    _int("offsets.topic.compression.codec", 0, "The codec of `__consumer_offsets`, by its number."),
    # Transactions
    _int("transaction.max.timeout.ms", 15 * MINUTE_MS, "The longest timeout that a transaction may ask for.", least=1),
    _int("transactional.id.expiration.ms", 7 * DAY_MS, "How long a transactional id is kept without use.", least=1),
    _int("transaction.state.log.num.partitions", 50, "Partitions of `__transaction_state`.", least=1),
    _short("transaction.state.log.replication.factor", 1, least=1,
           doc="Replicas of `__transaction_state`. 3 with three or more controllers, as in Kafka; a single node cannot "
               "give more than 1."),
    _int("transaction.state.log.min.isr", 1, least=1,
         doc="min.insync.replicas of `__transaction_state`. 2 with three or more controllers, as in Kafka."),
    _int("transaction.state.log.segment.bytes", 100 * MIB, "segment.bytes of `__transaction_state`.", least=1),
    _int("transaction.state.log.load.buffer.size", 5 * MIB, least=1,
         doc="How much of `__transaction_state` is read at once when it is loaded."),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, least=1,
         doc="How often transactions that ran out of time are looked for."),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, least=1,
         doc="How often expired transactional ids are looked for."),
    _flag("transaction.partition.verification.enable", True, scope="cluster-wide",
          doc="Check with the coordinator that a transactional write belongs to an open transaction."),
    _flag("transaction.two.phase.commit.enable", False, "Let clients take part in two-phase commit (KIP-939)."),
    _int("add.partitions.to.txn.retry.backoff.ms", 20, least=1,
         doc="The pause before a partition is again added to a transaction on the server's side."),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100, least=0,
         doc="How long a partition that is added on the server's side waits for the transaction before to end."),
)  # fmt: skip
