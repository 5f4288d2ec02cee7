"""Broker options for topics, logs and replicas that topics cannot override. Declarations only."""

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
    _int("num.partitions", 1, "The default number of partitions of a topic.", least=1),
    _int("default.replication.factor", 1,
         doc="The default replication factor of a topic. 3 with three or more controllers, 2 if only on two hosts."),
    _flag("auto.create.topics.enable", True, "Create a topic when a client requests one that does not exist."),
    _flag("delete.topic.enable", True, "Allow topics to be deleted."),
    # Logs
    _list("log.dirs", None, "The data directory. `--data` on the command line sets it.", allow_empty=False),
    _list("log.dir", None, allow_empty=False,
          doc="The data directory if log.dirs is not set. Kafka's default, /tmp/kafka-logs, does not apply: data is "
              "stored only in a directory that was chosen explicitly."),
    _list("cordoned.log.dirs", (), "The data directories that receive no new replicas.", scope="per-broker"),
    _long("log.dir.failure.timeout.ms", 30 * SECOND_MS, least=1,
          doc="How long a broker with a failed data directory may run before the controller knows about the failure."),
    _int("log.retention.minutes", None, "retention.ms in minutes, used if log.retention.ms is not set."),
    _int("log.retention.hours", 168,
         doc="retention.ms in hours, used if neither log.retention.ms nor log.retention.minutes is set."),
    _int("log.roll.hours", 168, "segment.ms in hours, used if log.roll.ms is not set.", least=1),
    _int("log.roll.jitter.hours", 0, "segment.jitter.ms in hours, used if log.roll.jitter.ms is not set.", least=0),
    _long("log.flush.scheduler.interval.ms", LONG_MAX, "flush.ms, used if log.flush.interval.ms is not set."),
    _int("log.flush.offset.checkpoint.interval.ms", MINUTE_MS, least=0,
         doc="How often the recovery points are written: the offsets below which a restart does not verify the logs."),
    _int("log.flush.start.offset.checkpoint.interval.ms", MINUTE_MS, least=0,
         doc="How often the log start offsets are written."),
    _int("log.journal.bytes", 8 * MIB, least=0, own=True,
         doc="The maximum size of each of the two journal files, through which many small appends share one fsync. 0 "
             "disables the journal: each log is then synced separately."),
    _int("log.journal.min.logs", 8, least=0, own=True,
         doc="The minimum number of logs waiting for an fsync for which the journal is used. Fewer logs are synced "
             "individually in parallel, which avoids writing their records twice."),
    _int("log.open.files.max", 4096, least=1, own=True,
         doc="How many log files are kept open for writes, but at most half of the file descriptors that the process "
             "may use. With more partitions, files that were not written to for a while are closed and opened again "
             "by the next write. Files with unsynced writes stay open."),
    _long("log.reserve.bytes", 16 * MIB, least=0, own=True,
          doc="The size of the file `reserve` in the data directory. When the disk is full, its space is released to "
              "the metadata log and the checkpoints, so that the node keeps running and serving reads. 0 reserves "
              "nothing: a node of a cluster then stops when it cannot write its metadata log."),
    _long("log.retention.check.interval.ms", 5 * MINUTE_MS, least=1,
          doc="How often segments are checked against the retention limits."),
    _long("log.initial.task.delay.ms", 30 * SECOND_MS, least=0, internal=True,
          doc="The delay between startup and the first retention check."),
    # Compaction
    _flag("log.cleaner.enable", True, "Compact topics whose cleanup.policy includes `compact`."),
    _long("log.cleaner.backoff.ms", 15 * SECOND_MS, least=0, scope="cluster-wide",
          doc="How long the log cleaner waits when there is nothing to compact."),
    _long("log.cleaner.dedupe.buffer.size", 128 * MIB, scope="cluster-wide",
          doc="The memory for the key map of a compaction, at 192 bytes per key. A log with more new keys than fit "
              "takes several passes."),
    _int("log.cleaner.io.buffer.size", 512 * KIB, least=0, scope="cluster-wide",
         doc="The size of the read and write buffers of the log cleaner."),
    _double("log.cleaner.io.buffer.load.factor", 0.9, "The maximum load factor of the key map.", scope="cluster-wide"),
    _double("log.cleaner.io.max.bytes.per.second", 1.7976931348623157e308, scope="cluster-wide",
            doc="The maximum I/O rate of the log cleaner, in bytes per second, reads and writes together."),
    # Producers
    _int("producer.id.expiration.ms", DAY_MS, least=1, scope="cluster-wide",
         doc="How long the state of an idempotent producer is retained after its last write."),
    _int("producer.id.expiration.check.interval.ms", 10 * MINUTE_MS, least=1, internal=True,
         doc="How often expired producer state is removed."),
    # Replication
    _long("replica.lag.time.max.ms", 30 * SECOND_MS,
          doc="A follower that has not caught up for this long is removed from the ISR."),
    _int("replica.fetch.max.bytes", 1 * MIB, least=0,
         doc="The maximum number of bytes that a follower fetches per partition. A single larger batch is still "
             "returned."),
    _int("replica.fetch.response.max.bytes", 10 * MIB, "The maximum size of a fetch response to a follower.", least=0),
    _int("replica.fetch.min.bytes", 1, "The minimum size of a fetch response to a follower."),
    _int("replica.fetch.wait.max.ms", 500, "How long the leader waits until it has replica.fetch.min.bytes."),
    _int("replica.fetch.backoff.ms", SECOND_MS, "How long a follower waits after a fetch error.", least=0),
    _int("replica.socket.timeout.ms", 30 * SECOND_MS, "How long a follower waits for a response."),
    _int("replica.socket.receive.buffer.bytes", 64 * KIB, "The socket receive buffer of a follower's connection."),
    _int("num.replica.fetchers", 1, least=1, scope="cluster-wide",
         doc="The number of connections to each leader. A change applies to partitions assigned afterwards."),
    _text("replica.selector.class", None,
          choices=(
              "org.apache.kafka.common.replica.LeaderSelector",
              "org.apache.kafka.common.replica.RackAwareReplicaSelector",
          ),
          doc="Whether a leader directs consumers to a replica in their own rack (client.rack)."),
    _long("replica.high.watermark.checkpoint.interval.ms", 5 * SECOND_MS, "How often high watermarks are saved."),
)  # fmt: skip
