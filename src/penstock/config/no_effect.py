"""Options that are validated, stored and returned but change nothing, each with the reason.

Configuration files and tools written for Kafka set them and read them back, so Penstock accepts them. The reference
page and DescribeConfigs mark them, and a node that is given one logs it at startup. A test checks this list against
the code: an option is listed here if and only if no code reads it.
"""

from typing import Final

from penstock.config.option import Option

_ONE_LOOP: Final = "each node runs a single event loop; run one node per core"
_NO_STREAMS_GROUPS: Final = "streams groups are not implemented yet"
_NO_TIERED_STORAGE: Final = "tiered storage is not implemented yet"
_NO_PUSH: Final = "client metrics (KIP-714) are not implemented yet"
_ONE_DIRECTORY: Final = "a node has one data directory"
_IMMEDIATE: Final = "records are written immediately, and all waiting writes share one fsync"
_UNCOMPRESSED: Final = "coordinators write their records uncompressed"
_BLOCKS: Final = "coordinators load their logs in blocks of 1 MiB"
_OWN_TIMEOUTS: Final = "each kind of request between nodes has its own timeout"

_PREFIXES: Final = (
    ("group.streams.", _NO_STREAMS_GROUPS),
    ("streams.", _NO_STREAMS_GROUPS),
    ("sasl.kerberos.", "Kerberos is not implemented"),
)
_REASONS: Final = {
    "add.partitions.to.txn.retry.backoff.ms": "the next attempt starts when the previous transaction has ended",
    "background.threads": _ONE_LOOP,
    "controller.quorum.append.linger.ms": _IMMEDIATE,
    "controller.quorum.auto.join.enable": "voters are added explicitly (AddRaftVoter)",
    "cordoned.log.dirs": _ONE_DIRECTORY,
    "group.coordinator.append.linger.ms": _IMMEDIATE,
    "group.coordinator.cached.buffer.max.bytes": "coordinators do not keep buffers",
    "interval.ms": _NO_PUSH,
    "log.cleaner.io.buffer.size": "compaction reads and writes in blocks of 1 MiB",
    "log.cleaner.threads": _ONE_LOOP,
    "log.dir.failure.timeout.ms": "a broker whose data directory has failed requests fencing in every heartbeat",
    "log.flush.start.offset.checkpoint.interval.ms": "log start offsets are written when they change",
    "log.initial.task.delay.ms": "the first check runs log.retention.check.interval.ms after startup",
    "log.local.retention.bytes": _NO_TIERED_STORAGE,
    "log.local.retention.ms": _NO_TIERED_STORAGE,
    "log.preallocate": "segments grow as they are written",
    "match": _NO_PUSH,
    "metadata.log.dir": "the metadata log is in the data directory",
    "metadata.max.idle.interval.ms": "fetch responses show followers that the controller is alive",
    "metadata.max.retention.bytes": "the two newest snapshots are kept, and the log since the older one",
    "metadata.max.retention.ms": "the two newest snapshots are kept, and the log since the older one",
    "metrics": _NO_PUSH,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.recovery.threads.per.data.dir": _ONE_LOOP,
    "offsets.load.buffer.size": _BLOCKS,
    "offsets.topic.compression.codec": _UNCOMPRESSED,
    "producer.id.expiration.check.interval.ms": "expired producers are removed during the retention check",
    "queued.max.requests": "requests do not wait for threads; see queued.max.request.bytes",
    "remote.log.copy.disable": _NO_TIERED_STORAGE,
    "remote.log.delete.on.disable": _NO_TIERED_STORAGE,
    "replica.alter.log.dirs.io.max.bytes.per.second": _ONE_DIRECTORY,
    "replica.socket.receive.buffer.bytes": "the operating system chooses the size",
    "request.timeout.ms": _OWN_TIMEOUTS,
    "group.share.assignors": "`simple` is the only assignor of share groups",
    "share.coordinator.append.linger.ms": _IMMEDIATE,
    "share.coordinator.state.topic.compression.codec": _UNCOMPRESSED,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "each transaction has its own timer",
    "transaction.state.log.load.buffer.size": _BLOCKS,
    "transaction.two.phase.commit.enable": "two-phase commit is not implemented yet",
    "unstable.api.versions.enable": "there are no unstable API versions",
    "unstable.feature.versions.enable": "there are no unstable feature versions",
}


def why_without_effect(name: str) -> str | None:
    """Return why the option with this broker-level name has no effect, or None if it has one."""
    return _REASONS.get(name) or next((why for prefix, why in _PREFIXES if name.startswith(prefix)), None)


def documentation(option: Option) -> str:
    """Return the option's description, with the reason if it has no effect."""
    why = why_without_effect(option.name)
    return option.doc if why is None else f"No effect: {why}. In Kafka: {option.doc}"
