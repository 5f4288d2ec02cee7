"""The options of a topic, each with the broker option that it takes its default from.

Owns the declarations; settings.py resolves them. `TOPIC` goes by the topic-level name. Every
topic option of Kafka 4.3 is here with Kafka's default, and `flush.mode` is our own.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.config.option import DAY_MS, GIB, HOUR_MS, LONG_MAX, MIB, MINUTE_MS, Option, Value, invalid

_PARTITION_AND_BROKER: Final = re.compile(r"[0-9]+:[0-9]+")


def check_throttled_replicas(name: str, value: Value) -> None:
    """Pass a list of `partition:broker` pairs, or the one word `*`."""
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
        doc="What happens to old records: `delete` drops whole segments by age and size, `compact` keeps the last "
        "record of each key, both together do both, and an empty list keeps everything.",
    ),
    _shared(
        name="compression.type", topic="compression.type", kind="string", default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        doc="The codec that batches are stored with. `producer` stores the bytes as they came, which costs nothing; "
        "any other value makes the broker open and recompress batches that use another codec.",
    ),
    _shared(
        name="compression.gzip.level", topic="compression.gzip.level", kind="int", default=-1, check=check_gzip_level,
        doc="The gzip level for batches that this broker recompresses; -1 is zlib's own choice.",
    ),
    _shared(
        name="compression.lz4.level", topic="compression.lz4.level", kind="int", default=9, least=1, most=17,
        doc="The lz4 level for batches that this broker recompresses.",
    ),
    _shared(
        name="compression.zstd.level", topic="compression.zstd.level", kind="int", default=3, least=-131072, most=22,
        doc="The zstd level for batches that this broker recompresses.",
    ),
    _shared(
        name="log.cleaner.delete.retention.ms", topic="delete.retention.ms", kind="long", default=DAY_MS, least=0,
        doc="How long a tombstone of a compacted topic stays readable after compaction first met it, so that a slow "
        "reader still learns of the deletion.",
    ),
    _shared(
        name="log.segment.delete.delay.ms", topic="file.delete.delay.ms", kind="long", default=MINUTE_MS, least=0,
        doc="How long a file that is no longer part of the log stays on disk before it is removed.",
    ),
    _shared(
        name="log.flush.interval.messages", topic="flush.messages", kind="long", default=LONG_MAX, least=1,
        doc="With `flush.mode=os`: ask for an fsync after this many records. With `flush.mode=fsync` every append is "
        "synced anyway and this has no effect.",
    ),
    _shared(
        name="log.flush.interval.ms", topic="flush.ms", kind="long", default=None, topic_least=0,
        fallbacks=("log.flush.scheduler.interval.ms",),
        doc="With `flush.mode=os`: ask for an fsync when the oldest unsynced record is this old. With "
        "`flush.mode=fsync` every append is synced anyway and this has no effect.",
    ),
    _shared(
        name="flush.mode", topic="flush.mode", kind="string", default="fsync", choices=("fsync", "os"), own=True,
        doc="When a record counts as stored. `fsync`: an acks=all answer leaves after the bytes are on the device, one "
        "sync serving all that waits. `os`: when the operating system has them, as Kafka does; a power loss can then "
        "take acknowledged records with it.",
    ),
    _only_at_topic(
        name="follower.replication.throttled.replicas", topic="follower.replication.throttled.replicas", kind="list",
        default=(), check=check_throttled_replicas,
        doc="Replicas whose fetching is held to follower.replication.throttled.rate, as `partition:broker` pairs, or "
        "`*` for all.",
    ),
    _only_at_topic(
        name="leader.replication.throttled.replicas", topic="leader.replication.throttled.replicas", kind="list",
        default=(), check=check_throttled_replicas,
        doc="Replicas whose leader is held to leader.replication.throttled.rate when it feeds followers, as "
        "`partition:broker` pairs, or `*` for all.",
    ),
    _shared(
        name="log.index.interval.bytes", topic="index.interval.bytes", kind="int", default=4096, least=0,
        doc="How many bytes of log lie between two entries of the offset index. Fewer bytes: a larger index and a "
        "shorter scan after the lookup.",
    ),
    _only_at_topic(
        name="internal.segment.bytes", topic="internal.segment.bytes", kind="int", default=None, least=1, internal=True,
        doc="Overrides segment.bytes without its lower bound. For tests that need many small segments.",
    ),
    _shared(
        name="log.local.retention.bytes", topic="local.retention.bytes", kind="long", default=-2, least=-2,
        doc="With tiered storage, how many bytes of a partition stay on the local disk; -2 follows retention.bytes.",
    ),
    _shared(
        name="log.local.retention.ms", topic="local.retention.ms", kind="long", default=-2, least=-2,
        doc="With tiered storage, how long a segment stays on the local disk; -2 follows retention.ms.",
    ),
    _shared(
        name="log.cleaner.max.compaction.lag.ms", topic="max.compaction.lag.ms", kind="long", default=LONG_MAX, least=1,
        doc="A record may stay uncompacted for at most this long; the active segment is rolled in time for it.",
    ),
    _shared(
        name="message.max.bytes", topic="max.message.bytes", kind="int", default=1 * MIB + 12, least=0,
        doc="The largest record batch that is taken, as it is stored (after compression). Larger ones are refused "
        "with MESSAGE_TOO_LARGE.",
    ),
    _shared(
        name="log.message.timestamp.after.max.ms", topic="message.timestamp.after.max.ms", kind="long",
        default=HOUR_MS, least=0,
        doc="How far a record's timestamp may lie in the future. Does not apply to LogAppendTime.",
    ),
    _shared(
        name="log.message.timestamp.before.max.ms", topic="message.timestamp.before.max.ms", kind="long",
        default=LONG_MAX, least=0,
        doc="How far a record's timestamp may lie in the past. Does not apply to LogAppendTime.",
    ),
    _shared(
        name="log.message.timestamp.type", topic="message.timestamp.type", kind="string", default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        doc="Whose clock a record's timestamp is: the producer's (`CreateTime`) or the broker's (`LogAppendTime`).",
    ),
    _shared(
        name="log.cleaner.min.cleanable.ratio", topic="min.cleanable.dirty.ratio", kind="double", default=0.5,
        least=0, most=1,
        doc="The share of a compacted log that must be new before it is worth compacting again.",
    ),
    _shared(
        name="log.cleaner.min.compaction.lag.ms", topic="min.compaction.lag.ms", kind="long", default=0, least=0,
        doc="A record stays uncompacted for at least this long, so that readers who keep up see every version.",
    ),
    _shared(
        name="min.insync.replicas", topic="min.insync.replicas", kind="int", default=1, least=1,
        doc="How many replicas must be in sync for an acks=all write to be taken: 2 with three or more controllers, "
            "unless something else is set.",
    ),
    _shared(
        name="log.preallocate", topic="preallocate", kind="boolean", default=False,
        doc="Reserve a new segment's whole size on disk when it is made.",
    ),
    _only_at_topic(
        name="remote.log.copy.disable", topic="remote.log.copy.disable", kind="boolean", default=False,
        doc="With tiered storage, stop copying segments away while those already copied stay readable.",
    ),
    _only_at_topic(
        name="remote.log.delete.on.disable", topic="remote.log.delete.on.disable", kind="boolean", default=False,
        doc="With tiered storage, delete what was copied when remote.storage.enable is switched off.",
    ),
    _only_at_topic(
        name="remote.storage.enable", topic="remote.storage.enable", kind="boolean", default=False,
        doc="Keep old segments in a remote tier. There is none here, so only `false` is taken.",
    ),
    _shared(
        name="log.retention.bytes", topic="retention.bytes", kind="long", default=-1,
        doc="The size above which a partition's oldest segments are deleted; -1 sets no bound. A partition may hold "
        "up to one segment more than this.",
    ),
    _shared(
        name="log.retention.ms", topic="retention.ms", kind="long", default=None, topic_least=-1,
        fallbacks=("log.retention.minutes", "log.retention.hours"),
        doc="The age of its newest record at which a segment is deleted; -1 keeps segments for ever.",
    ),
    _shared(
        name="log.segment.bytes", topic="segment.bytes", kind="int", default=1 * GIB, least=1 * MIB,
        doc="Close a segment once it holds this many bytes.",
    ),
    _shared(
        name="log.index.size.max.bytes", topic="segment.index.bytes", kind="int", default=10 * MIB, least=4,
        doc="Close a segment once its offset or time index holds this many bytes.",
    ),
    _shared(
        name="log.roll.jitter.ms", topic="segment.jitter.ms", kind="long", default=None, topic_least=0,
        fallbacks=("log.roll.jitter.hours",),
        doc="Take up to this much, at random, off segment.ms, so that many partitions do not roll at once.",
    ),
    _shared(
        name="log.roll.ms", topic="segment.ms", kind="long", default=None, topic_least=1, fallbacks=("log.roll.hours",),
        doc="Close a segment once its first record is this old, so that retention and compaction get at it.",
    ),
    _shared(
        name="unclean.leader.election.enable", topic="unclean.leader.election.enable", kind="boolean", default=False,
        doc="Let a replica that is not in sync become leader when no other is left: the partition is back, at the "
        "price of losing records.",
    ),
)  # fmt: skip

TOPIC: Final[Mapping[str, Option]] = {option.topic: option for option in TOPIC_OPTIONS if option.topic is not None}
