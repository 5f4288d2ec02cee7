"""Broker options for groups, offsets, transactions and share groups. Declarations only."""

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
    """Reject anything except the four policy names, in any case."""
    if str(value).upper() not in ("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"):
        raise invalid(
            name, value, "String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"
        )


COORDINATOR_OPTIONS: Final[tuple[Option, ...]] = (
    # Classic groups
    _int("group.initial.rebalance.delay.ms", 3 * SECOND_MS,
         doc="How long the coordinator waits for more members to join an empty group before the first rebalance."),
    _int("group.min.session.timeout.ms", 6 * SECOND_MS, "The minimum session timeout that a member may request."),
    _int("group.max.session.timeout.ms", 30 * MINUTE_MS, "The maximum session timeout that a member may request."),
    _int("group.max.size", 1000, least=1,
         doc="The maximum number of members of a classic group. Kafka has no limit by default."),
    _long("group.metadata.memory.max.bytes", 256 * MIB, least=0, own=True,
          doc="The memory limit for the metadata of all members of classic groups on this node. Above it, a member "
              "that joins with more than 4 KiB of metadata receives COORDINATOR_NOT_AVAILABLE."),
    _list("group.coordinator.rebalance.protocols", ("classic", "consumer", "streams"),
          choices=("consumer", "classic", "share", "streams"),
          doc="The enabled group protocols. `classic` is always enabled, `consumer` (KIP-848) if listed here; `share` "
              "and `streams` are accepted but not implemented yet."),
    _int("group.coordinator.append.linger.ms", -1, least=-1,
         doc="How long a coordinator collects records before it writes them; -1 adapts to the load."),
    _int("group.coordinator.cached.buffer.max.bytes", 1 * MIB + 12, least=512 * KIB, scope="cluster-wide",
         doc="The maximum size of the buffer that a coordinator keeps for its next write."),
    # Consumer groups (KIP-848)
    _list("group.consumer.assignors", ("uniform", "range"), choices=("uniform", "range"),
          doc="The server-side assignors. The first one is the default."),
    _int("group.consumer.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member that sends no heartbeat for this long is removed from the group."),
    _int("group.consumer.min.session.timeout.ms", 45 * SECOND_MS, "The minimum session timeout of a group.", least=1),
    _int("group.consumer.max.session.timeout.ms", 60 * SECOND_MS, "The maximum session timeout of a group.", least=1),
    _int("group.consumer.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The interval at which members send heartbeats."),
    _int("group.consumer.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The minimum heartbeat interval of a group."),
    _int("group.consumer.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The maximum heartbeat interval of a group."),
    _int("group.consumer.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The minimum time between two assignments of a group."),
    _int("group.consumer.min.assignment.interval.ms", 0, "The minimum assignment interval of a group.", least=0),
    _int("group.consumer.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The maximum assignment interval of a group."),
    _int("group.consumer.max.size", INT_MAX, "The maximum number of members of a consumer group.", least=1),
    _text("group.consumer.migration.policy", "bidirectional", check=check_migration_policy,
          doc="Which online conversions between the classic and the consumer protocol are allowed: `upgrade`, "
              "`downgrade`, `bidirectional` or `disabled`."),
    _int("group.consumer.regex.refresh.interval.ms", 10 * MINUTE_MS, least=10 * SECOND_MS, internal=True,
         doc="How often the topics that match a subscribed pattern are resolved again."),
    # Share groups (KIP-932)
    _list("group.share.assignors", ("simple",), "The assignors of share groups. The first one is the default."),
    _int("group.share.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member that sends no heartbeat for this long is removed from the group."),
    _int("group.share.min.session.timeout.ms", 45 * SECOND_MS, "The minimum session timeout of a group.", least=1),
    _int("group.share.max.session.timeout.ms", 60 * SECOND_MS, "The maximum session timeout of a group.", least=1),
    _int("group.share.heartbeat.interval.ms", 5 * SECOND_MS, "The interval at which members send heartbeats.", least=1),
    _int("group.share.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The minimum heartbeat interval of a group."),
    _int("group.share.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The maximum heartbeat interval of a group."),
    _int("group.share.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The minimum time between two assignments of a group."),
    _int("group.share.min.assignment.interval.ms", 0, "The minimum assignment interval of a group.", least=0),
    _int("group.share.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The maximum assignment interval of a group."),
    _int("group.share.max.size", 200, "The maximum number of members of a share group.", least=1, most=1000),
    _int("group.share.max.share.sessions", 2000, "The maximum number of share sessions per broker.", least=1),
    _int("group.share.delivery.count.limit", 5, least=2, most=10,
         doc="How often a record is delivered before it is archived."),
    _int("group.share.min.delivery.count.limit", 2, "The minimum delivery count limit of a group.", least=2, most=5),
    _int("group.share.max.delivery.count.limit", 10, "The maximum delivery count limit of a group.", least=5, most=25),
    _int("group.share.record.lock.duration.ms", 30 * SECOND_MS, least=SECOND_MS, most=HOUR_MS,
         doc="How long a record stays locked by the member that acquired it."),
    _int("group.share.min.record.lock.duration.ms", 15 * SECOND_MS, least=SECOND_MS, most=30 * SECOND_MS,
         doc="The minimum lock duration of a group."),
    _int("group.share.max.record.lock.duration.ms", 60 * SECOND_MS, least=30 * SECOND_MS, most=HOUR_MS,
         doc="The maximum lock duration of a group."),
    _int("group.share.partition.max.record.locks", 2000, least=100, most=10_000,
         doc="The maximum number of locked records per partition."),
    _int("group.share.min.partition.max.record.locks", 100, least=100, most=2000,
         doc="The minimum value of share.partition.max.record.locks."),
    _int("group.share.max.partition.max.record.locks", 4000, least=2000, most=10_000,
         doc="The maximum value of share.partition.max.record.locks."),
    _int("share.coordinator.append.linger.ms", -1, least=-1,
         doc="How long the share coordinator collects records before it writes them; -1 adapts to the load."),
    _int("share.coordinator.snapshot.update.records.per.snapshot", 500, least=0, most=500,
         doc="The number of updates between two snapshots of a share partition's state."),
    _int("share.coordinator.write.timeout.ms", 5 * SECOND_MS, "The timeout for writing share-group state.", least=1),
    _int("share.coordinator.state.topic.num.partitions", 50, least=1,
         doc="The number of partitions of `__share_group_state`."),
    _short("share.coordinator.state.topic.replication.factor", 1, least=1,
           doc="The replication factor of `__share_group_state`. 3 with three or more controllers, as in Kafka."),
    _short("share.coordinator.state.topic.min.isr", 1, least=1,
           doc="min.insync.replicas of `__share_group_state`. 2 with three or more controllers, as in Kafka."),
    _int("share.coordinator.state.topic.segment.bytes", 100 * MIB, "segment.bytes of `__share_group_state`.", least=1),
    _int("share.coordinator.state.topic.compression.codec", 0, "The codec of `__share_group_state`, as a number."),
    # Streams groups
    _int("group.streams.session.timeout.ms", 45 * SECOND_MS, least=1,
         doc="A member that sends no heartbeat for this long is removed from the group."),
    _int("group.streams.min.session.timeout.ms", 45 * SECOND_MS, "The minimum session timeout of a group.", least=1),
    _int("group.streams.max.session.timeout.ms", 60 * SECOND_MS, "The maximum session timeout of a group.", least=1),
    _int("group.streams.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The interval at which members send heartbeats."),
    _int("group.streams.min.heartbeat.interval.ms", 5 * SECOND_MS, least=1,
         doc="The minimum heartbeat interval of a group."),
    _int("group.streams.max.heartbeat.interval.ms", 15 * SECOND_MS, least=1,
         doc="The maximum heartbeat interval of a group."),
    _int("group.streams.assignment.interval.ms", SECOND_MS, least=0, scope="cluster-wide",
         doc="The minimum time between two assignments of a group."),
    _int("group.streams.min.assignment.interval.ms", 0, "The minimum assignment interval of a group.", least=0),
    _int("group.streams.max.assignment.interval.ms", 15 * SECOND_MS, least=0,
         doc="The maximum assignment interval of a group."),
    _int("group.streams.initial.rebalance.delay.ms", 3 * SECOND_MS, least=0,
         doc="How long the coordinator waits for more members to join a new group."),
    _int("group.streams.num.standby.replicas", 0, "The number of standby replicas per task.", least=0),
    _int("group.streams.max.standby.replicas", 2, "The maximum number of standby replicas of a group.", least=0),
    _int("group.streams.max.size", INT_MAX, "The maximum number of members of a streams group.", least=1),
    # Offsets
    _int("offset.metadata.max.bytes", 4096, "The maximum size of the metadata of a committed offset."),
    _int("offsets.commit.timeout.ms", 5 * SECOND_MS, least=1,
         doc="How long an offset commit may wait for replicas to acknowledge it."),
    _int("offsets.retention.minutes", 7 * 24 * 60, "How long the offsets of an empty group are retained.", least=1),
    _long("offsets.retention.check.interval.ms", 10 * MINUTE_MS, "How often expired offsets are removed.", least=1),
    _int("offsets.load.buffer.size", 5 * MIB, least=1,
         doc="The number of bytes per read when `__consumer_offsets` is loaded."),
    _int("offsets.topic.num.partitions", 50, "The number of partitions of `__consumer_offsets`.", least=1),
    _short("offsets.topic.replication.factor", 1, least=1,
           doc="The replication factor of `__consumer_offsets`. 3 with three or more controllers, as in Kafka; a "
               "single node supports only 1."),
    _int("offsets.topic.segment.bytes", 100 * MIB, "segment.bytes of `__consumer_offsets`.", least=1),
    _int("offsets.topic.compression.codec", 0, "The codec of `__consumer_offsets`, as a number."),
    # Transactions
    _int("transaction.max.timeout.ms", 15 * MINUTE_MS, "The maximum timeout that a producer may request.", least=1),
    _int("transactional.id.expiration.ms", 7 * DAY_MS, "How long an unused transactional id is retained.", least=1),
    _int("transaction.state.log.num.partitions", 50, "The number of partitions of `__transaction_state`.", least=1),
    _short("transaction.state.log.replication.factor", 1, least=1,
           doc="The replication factor of `__transaction_state`. 3 with three or more controllers, as in Kafka; a "
               "single node supports only 1."),
    _int("transaction.state.log.min.isr", 1, least=1,
         doc="min.insync.replicas of `__transaction_state`. 2 with three or more controllers, as in Kafka."),
    _int("transaction.state.log.segment.bytes", 100 * MIB, "segment.bytes of `__transaction_state`.", least=1),
    _int("transaction.state.log.load.buffer.size", 5 * MIB, least=1,
         doc="The number of bytes per read when `__transaction_state` is loaded."),
    _int("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10 * SECOND_MS, least=1,
         doc="How often transactions that have exceeded their timeout are aborted."),
    _int("transaction.remove.expired.transaction.cleanup.interval.ms", HOUR_MS, least=1,
         doc="How often expired transactional ids are removed."),
    _flag("transaction.partition.verification.enable", True, scope="cluster-wide",
          doc="Verify with the coordinator that a transactional write belongs to an open transaction."),
    _flag("transaction.two.phase.commit.enable", False, "Allow clients to use two-phase commit (KIP-939)."),
    _int("add.partitions.to.txn.retry.backoff.ms", 20, least=1,
         doc="The delay before the broker retries to add a partition to a transaction."),
    _int("add.partitions.to.txn.retry.backoff.max.ms", 100, least=0,
         doc="How long the broker, when it adds a partition, waits for the producer's previous transaction to end."),
)  # fmt: skip
