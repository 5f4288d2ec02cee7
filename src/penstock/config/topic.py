"""The options of a topic, each with the broker option that supplies its default.

Owns the declarations; settings.py resolves them. `TOPIC` is keyed by topic-level name. It has every
topic option of Kafka 4.3 with Kafka's default, and `flush.mode`, which Kafka does not have.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.config.option import DAY_MS, GIB, HOUR_MS, LONG_MAX, MIB, MINUTE_MS, Option, Value, invalid

_PARTITION_AND_BROKER: Final = re.compile(r"[0-9]+:[0-9]+")


def check_throttled_replicas(name: str, value: Value) -> None:
    """Reject anything except a list of `partition:broker` pairs or `*`."""
    words = value if isinstance(value, tuple) else ()
    if words != ("*",) and not all(_PARTITION_AND_BROKER.fullmatch(word) for word in words):
        shown = f"[{', '.join(words)}]"
        raise invalid(
            name, shown, f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )  # fmt: skip


def check_gzip_level(name: str, value: Value) -> None:
    if isinstance(value, int) and value != -1 and not 1 <= value <= 9:
        raise invalid(name, value, "Value must be between 1 and 9 or equal to -1")


# Both the topic's value and the broker's default for it take effect without a restart.
_shared = partial(Option, scope="cluster-wide")
_only_at_topic = partial(Option, scope="cluster-wide", at_broker=False)

TOPIC_OPTIONS: Final[tuple[Option, ...]] = (
    _shared(
        name="log.cleanup.policy", topic="cleanup.policy", kind="list", default=("delete",),
        choices=("compact", "delete"),
        doc="How old records are removed: `delete` drops whole segments by age and size, `compact` keeps the last "
        "record of each key. With both, a topic is compacted and old segments are deleted. An empty list keeps "
        "everything.",
    ),
    _shared(
        name="compression.type", topic="compression.type", kind="string", default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="The codec of stored batches. `producer` stores batches as they were received, at no cost; with any other "
        "value the broker recompresses batches that use another codec.",
    ),
    _shared(
        name="compression.gzip.level", topic="compression.gzip.level", kind="int", default=-1, check=check_gzip_level,
        doc="The gzip level for batches that the broker recompresses; -1 uses zlib's default.",
    ),
    _shared(
        name="compression.lz4.level", topic="compression.lz4.level", kind="int", default=9, least=1, most=17,
        doc="The lz4 level for batches that the broker recompresses.",
    ),
    _shared(
        name="compression.zstd.level", topic="compression.zstd.level", kind="int", default=3, least=-131072, most=22,
        doc="The zstd level for batches that the broker recompresses.",
    ),
    _shared(
        name="log.cleaner.delete.retention.ms", topic="delete.retention.ms", kind="long", default=DAY_MS, least=0,
        doc="How long a tombstone of a compacted topic remains readable after its first compaction, so that slow "
        "consumers still see the deletion.",
    ),
    _shared(
        name="log.segment.delete.delay.ms", topic="file.delete.delay.ms", kind="long", default=MINUTE_MS, least=0,
        doc="How long a file stays on disk after its segment has been removed from the log.",
    ),
    _shared(
        name="log.flush.interval.messages", topic="flush.messages", kind="long", default=LONG_MAX, least=1,
        doc="With `flush.mode=os`, the number of records after which an fsync is started. It has no effect with "
        "`flush.mode=fsync`, which syncs every append.",
    ),
    _shared(
        name="log.flush.interval.ms", topic="flush.ms", kind="long", default=None, topic_least=0,
        fallbacks=("log.flush.scheduler.interval.ms",),
        doc="With `flush.mode=os`, the age of the oldest unsynced record at which an fsync is started. It has no "
        "effect with `flush.mode=fsync`, which syncs every append.",
    ),
    _shared(
        name="flush.mode", topic="flush.mode", kind="string", default="fsync", choices=("fsync", "os"), own=True,
        doc="When a record counts as stored. With `fsync`, the broker acknowledges an acks=all write after the bytes "
        "are on the storage device; all waiting writes share one fsync. With `os`, it does so when the operating "
        "system has the bytes, as Kafka does; a power loss can then lose acknowledged records.",
    ),
    _only_at_topic(
        name="follower.replication.throttled.replicas", topic="follower.replication.throttled.replicas", kind="list",
        default=(), check=check_throttled_replicas,
        doc="The replicas whose fetches are limited to follower.replication.throttled.rate, as `partition:broker` "
        "pairs, or `*` for all.",
    ),
    _only_at_topic(
        name="leader.replication.throttled.replicas", topic="leader.replication.throttled.replicas", kind="list",
        default=(), check=check_throttled_replicas,
        doc="The replicas to which leaders send at most leader.replication.throttled.rate, as `partition:broker` "
        "pairs, or `*` for all.",
    ),
    _shared(
        name="log.index.interval.bytes", topic="index.interval.bytes", kind="int", default=4096, least=0,
        doc="The number of bytes of log between two entries of the offset index. A smaller interval makes the index "
        "larger and the scan after a lookup shorter.",
    ),
    _only_at_topic(
        name="internal.segment.bytes", topic="internal.segment.bytes", kind="int", default=None, least=1, internal=True,
        doc="Overrides segment.bytes without its minimum. For tests that need many small segments.",
    ),
    _shared(
        name="log.local.retention.bytes", topic="local.retention.bytes", kind="long", default=-2, least=-2,
        doc="With tiered storage, the size of a partition on the local disk; -2 means retention.bytes.",
    ),
    _shared(
        name="log.local.retention.ms", topic="local.retention.ms", kind="long", default=-2, least=-2,
        doc="With tiered storage, how long a segment stays on the local disk; -2 means retention.ms.",
    ),
    _shared(
        name="log.cleaner.max.compaction.lag.ms", topic="max.compaction.lag.ms", kind="long", default=LONG_MAX, least=1,
        doc="The maximum time that a record stays uncompacted. The active segment is rolled in time for it.",
    ),
    _shared(
        name="message.max.bytes", topic="max.message.bytes", kind="int", default=1 * MIB + 12, least=0,
        doc="The maximum size of a record batch as stored (after compression). Larger batches are rejected with "
        "MESSAGE_TOO_LARGE.",
    ),
    _shared(
        name="log.message.timestamp.after.max.ms", topic="message.timestamp.after.max.ms", kind="long",
        default=HOUR_MS, least=0,
        doc="How far a record's timestamp may be in the future. Does not apply to LogAppendTime.",
    ),
    _shared(
        name="log.message.timestamp.before.max.ms", topic="message.timestamp.before.max.ms", kind="long",
        default=LONG_MAX, least=0,
        doc="How far a record's timestamp may be in the past. Does not apply to LogAppendTime.",
    ),
    _shared(
        name="log.message.timestamp.type", topic="message.timestamp.type", kind="string", default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="The source of record timestamps: the producer's clock (`CreateTime`) or the broker's (`LogAppendTime`).",
    ),
    _shared(
        name="log.cleaner.min.cleanable.ratio", topic="min.cleanable.dirty.ratio", kind="double", default=0.5,
        least=0, most=1,
        doc="The minimum ratio of uncompacted to total bytes at which a log is compacted.",
    ),
    _shared(
        name="log.cleaner.min.compaction.lag.ms", topic="min.compaction.lag.ms", kind="long", default=0, least=0,
        doc="The minimum time that a record stays uncompacted, so that consumers that keep up see every record.",
    ),
    _shared(
        name="min.insync.replicas", topic="min.insync.replicas", kind="int", default=1, least=1,
        doc="The minimum size of the ISR for an acks=all write to succeed. The default is 2 with three or more "
            "controllers.",
    ),
    _shared(
        name="log.preallocate", topic="preallocate", kind="boolean", default=False,
        doc="Allocate the full size of a new segment on disk when it is created.",
    ),
    _only_at_topic(
        name="remote.log.copy.disable", topic="remote.log.copy.disable", kind="boolean", default=False,
        doc="With tiered storage, stop copying segments to the remote tier; segments already there stay readable.",
    ),
    _only_at_topic(
        name="remote.log.delete.on.disable", topic="remote.log.delete.on.disable", kind="boolean", default=False,
        doc="With tiered storage, delete the remote segments when remote.storage.enable is set to false.",
    ),
    _only_at_topic(
        name="remote.storage.enable", topic="remote.storage.enable", kind="boolean", default=False,
        doc="Keep old segments in a remote tier. Tiered storage is not implemented yet, so only `false` is accepted.",
    ),
    _shared(
        name="log.retention.bytes", topic="retention.bytes", kind="long", default=-1,
        doc="The size of a partition above which its oldest segments are deleted; -1 means no limit. A partition can "
        "exceed it by up to one segment.",
    ),
    # Without a value, `BrokerSettings.topic_default` uses the fallbacks: log.retention.hours is 168 by default, 7 days.
    _shared(
        name="log.retention.ms", topic="retention.ms", kind="long", default=None, topic_least=-1,
        fallbacks=("log.retention.minutes", "log.retention.hours"),
        doc="The age of a segment's newest record at which the segment is deleted; -1 keeps segments forever.",
    ),
    _shared(
        name="log.segment.bytes", topic="segment.bytes", kind="int", default=1 * GIB, least=1 * MIB,
        doc="The size at which a segment is rolled.",
    ),
    _shared(
        name="log.index.size.max.bytes", topic="segment.index.bytes", kind="int", default=10 * MIB, least=4,
        doc="The size of the offset or time index at which a segment is rolled.",
    ),
    _shared(
        name="log.roll.jitter.ms", topic="segment.jitter.ms", kind="long", default=None, topic_least=0,
        fallbacks=("log.roll.jitter.hours",),
        doc="The maximum random amount subtracted from segment.ms, so that many partitions do not roll at the same "
            "time.",
    ),
    _shared(
        name="log.roll.ms", topic="segment.ms", kind="long", default=None, topic_least=1, fallbacks=("log.roll.hours",),
        doc="The age of a segment's first record at which the segment is rolled, so that it can be deleted or "
            "compacted.",
    ),
    _shared(
        name="unclean.leader.election.enable", topic="unclean.leader.election.enable", kind="boolean", default=False,
        doc="Allow a replica that is not in the ISR to become leader if no replica in the ISR is available. The "
        "partition becomes available again, but records may be lost.",
    ),
)  # fmt: skip

TOPIC: Final[Mapping[str, Option]] = {option.topic: option for option in TOPIC_OPTIONS if option.topic is not None}
