"""The broker's options on topics, logs and replicas that no topic can override. Only declarations."""

from functools import partial
from typing import Final

from penstock.config.option import DAY_MS, KIB, LONG_MAX, MIB, MINUTE_MS, SECOND_MS, Option, declare

_flag = partial(declare, "boolean")
_int = partial(declare, "int")
_long = partial(declare, "long")
_double = partial(declare, "double")
_text = partial(declare, "string")
_list = partial(declare, "list")

STORAGE_OPTIONS: Final[tuple[Option, ...]] = (
    # Topics
    _int("num.partitions", 1, "How many partitions a topic gets that is made without saying.", least=1),
    _int("default.replication.factor", 1,
         doc="How many replicas a topic gets that is made without saying: 3 with three or more controllers."),
    _flag("auto.create.topics.enable", True, "Make a topic when a client asks for one that is not there."),
    _flag("delete.topic.enable", True, "Allow topics to be deleted."),
    # Logs
    _list("log.dirs", None, "The folder that holds the data. `--data` on the command line sets it.", allow_empty=False),
    _list("log.dir", None, allow_empty=False,
          doc="The folder that holds the data while log.dirs is not set. Kafka's /tmp/kafka-logs is not taken over: "
              "data belongs in a folder that somebody chose."),
    _list("cordoned.log.dirs", (), "Folders that get no new replicas.", scope="per-broker"),
    _long("log.dir.failure.timeout.ms", 30 * SECOND_MS, least=1,
          doc="How long a broker with a failed folder may go on without the controller having heard of it."),
    _int("log.retention.minutes", None, "retention.ms in minutes, used while log.retention.ms is not set."),
    _int("log.retention.hours", 168,
         doc="retention.ms in hours, used while neither log.retention.ms nor log.retention.minutes is set."),
    _int("log.roll.hours", 168, "segment.ms in hours, used while log.roll.ms is not set.", least=1),
    _int("log.roll.jitter.hours", 0, "segment.jitter.ms in hours, used while log.roll.jitter.ms is not set.", least=0),
    _long("log.flush.scheduler.interval.ms", LONG_MAX, "flush.ms while log.flush.interval.ms is not set."),
    _int("log.flush.offset.checkpoint.interval.ms", MINUTE_MS, least=0,
         doc="How often the recovery points are written: the offsets below which a restart need not check the logs."),
    _int("log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, least=0,
         doc="How often the log start offsets are written."),
    _int("log.journal.bytes", 8 * MIB, least=0, own=True,
         doc="How large each of the two files of the journal may grow, through which many small appends share one "
             "fsync. 0 means no journal: each log is always synced by itself."),
    _int("log.journal.min.logs", 8, least=0, own=True,
         doc="How many logs must wait for an fsync at a time to share one in the journal. Fewer are synced side by "
             "side, which writes nothing twice."),
    _long("log.reserve.bytes", 16 * MIB, least=0, own=True,
          doc="How many bytes of the disk the file `reserve` in the data folder occupies. The metadata log and the "
              "checkpoints use them when the disk is full, so that the node stays up and serves reads. 0 reserves "
              "nothing: a node of a cluster then stops when its metadata log meets a full disk."),
    _long("log.retention.check.interval.ms", 5 * MINUTE_MS, least=1,
          doc="How often the janitor looks for segments that retention lets go."),
    _long("log.initial.task.delay.ms", 30 * SECOND_MS, least=0, internal=True,
          doc="How long after the start the janitor first looks."),
    # Compaction
    _flag("log.cleaner.enable", True, "Compact the topics that ask for it."),
    _long("log.cleaner.backoff.ms", 15 * SECOND_MS, least=0, scope="cluster-wide",
          doc="The pause when there is nothing to compact."),
    _long("log.cleaner.dedupe.buffer.size", 128 * MIB, scope="cluster-wide",
          doc="The memory for the map of keys that a compaction keeps; 192 bytes for each. Where a log has more new "
              "keys than fit, it takes more passes."),
    _int("log.cleaner.io.buffer.size", 512 * KIB, least=0, scope="cluster-wide",
         doc="The memory that compaction reads and writes through."),
    _double("log.cleaner.io.buffer.load.factor", 0.9, "How full the map of keys may get.", scope="cluster-wide"),
    _double("log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, scope="cluster-wide",
            doc="How many bytes compaction may read and write in a second, both counted."),
    # Producers
    _int("producer.id.expiration.ms", DAY_MS, least=1, scope="cluster-wide",
         doc="After this long without a write the state of an idempotent producer is forgotten."),
    _int("producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, least=1, internal=True,
         doc="How often expired producers are looked for."),
    # Replication
    _long("replica.lag.time.max.ms", 30 * SECOND_MS,
          doc="A follower that has not caught up for this long leaves the in-sync set."),
    _int("replica.fetch.max.bytes", 1 * MIB, least=0,
         doc="What a follower asks for per partition; a single larger batch still passes."),
    _int("replica.fetch.response.max.bytes", 10 * MIB, "What a follower asks for per request.", least=0),
    _int("replica.fetch.min.bytes", 1, "How much a leader waits to have before it answers a follower."),
    _int("replica.fetch.wait.max.ms", 500, "How long a leader waits for that much."),
    _int("replica.fetch.backoff.ms", SECOND_MS, "The pause of a follower after an error.", least=0),
    _int("replica.socket.timeout.ms", 30 * SECOND_MS, "How long a follower waits for an answer."),
    _int("replica.socket.receive.buffer.bytes", 64 * KIB, "The receive buffer of a follower's connection."),
    _int("num.replica.fetchers", 1, least=1, scope="cluster-wide",
         doc="How many connections a follower has to each leader. A change counts for what it begins to follow."),
    _text("replica.selector.class", None,
          choices=(
              "org.apache.kafka.common.replica.LeaderSelector",
              "org.apache.kafka.common.replica.RackAwareReplicaSelector",
          ),
          doc="Whether a leader sends a consumer to a replica in the rack that it names (client.rack)."),
    _long("replica.high.watermark.checkpoint.interval.ms", 5 * SECOND_MS, "How often the high watermarks are written."),
)  # fmt: skip
