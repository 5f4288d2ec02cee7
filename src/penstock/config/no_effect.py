"""Options that are declared, checked, kept and shown, and change nothing here: each with the reason.

Files and tools written for Kafka set them and read them back, so they are taken. The reference page and DescribeConfigs
say that they have no effect, and a node that is given one says so when it starts. A test holds this list to the code:
what is not here is read somewhere, and what is here is not.
"""

from typing import Final

from penstock.config.option import Option

_ONE_LOOP: Final = "a node runs one event loop, and a host runs one node per core"
_NO_SHARE_GROUPS: Final = "share groups are not served yet"
_NO_STREAMS_GROUPS: Final = "streams groups are not served yet"
_NO_TIERS: Final = "there is no tiered storage yet"
_NO_PUSH: Final = "clients do not push metrics to Penstock yet"
_ONE_FOLDER: Final = "a node has one data folder"
_AT_ONCE: Final = "records are written at once, and one sync serves all that wait"
_UNCOMPRESSED: Final = "coordinators write their records uncompressed"
_BLOCKS: Final = "coordinators read their logs in blocks of 1 MiB"
_OWN_BOUNDS: Final = "each kind of request between nodes has a bound of its own"

_PREFIXES: Final = (
    ("group.share.", _NO_SHARE_GROUPS),
    ("share.", _NO_SHARE_GROUPS),
    ("group.streams.", _NO_STREAMS_GROUPS),
    ("streams.", _NO_STREAMS_GROUPS),
    ("sasl.kerberos.", "there is no Kerberos here"),
)
_EXCEPT: Final = frozenset({
    "share.coordinator.state.topic.min.isr", "share.coordinator.state.topic.num.partitions",
    "share.coordinator.state.topic.replication.factor", "share.coordinator.state.topic.segment.bytes",
})  # fmt: skip

_REASONS: Final = {
    "add.partitions.to.txn.retry.backoff.ms": "the next attempt begins when the transaction before it has ended",
    "background.threads": _ONE_LOOP,
    "controller.quorum.append.linger.ms": _AT_ONCE,
    "controller.quorum.auto.join.enable": "a voter is added when somebody asks for it (AddRaftVoter)",
    "cordoned.log.dirs": _ONE_FOLDER,
    "group.coordinator.append.linger.ms": _AT_ONCE,
    "group.coordinator.cached.buffer.max.bytes": "coordinators keep no buffers",
    "interval.ms": _NO_PUSH,
    "log.cleaner.io.buffer.size": "compaction reads and writes in blocks of 1 MiB",
    "log.cleaner.threads": _ONE_LOOP,
    "log.dir.failure.timeout.ms": "a broker whose folder has failed asks to be fenced with every heartbeat",
    "log.flush.start.offset.checkpoint.interval.ms": "they are written when they move",
    "log.initial.task.delay.ms": "the first look comes log.retention.check.interval.ms after the start",
    "log.local.retention.bytes": _NO_TIERS,
    "log.local.retention.ms": _NO_TIERS,
    "log.preallocate": "segments grow as they are written",
    "match": _NO_PUSH,
    "metadata.log.dir": "the metadata log is in the data folder",
    "metadata.max.idle.interval.ms": "followers know by their fetches that the controller lives",
    "metadata.max.retention.bytes": "the newest two snapshots are kept, and the log from the older of them on",
    "metadata.max.retention.ms": "the newest two snapshots are kept, and the log from the older of them on",
    "metrics": _NO_PUSH,
    "num.io.threads": _ONE_LOOP,
    "num.network.threads": _ONE_LOOP,
    "num.recovery.threads.per.data.dir": _ONE_LOOP,
    "offsets.load.buffer.size": _BLOCKS,
    "offsets.topic.compression.codec": _UNCOMPRESSED,
    "producer.id.expiration.check.interval.ms": "the janitor looks for them when it looks at retention",
    "queued.max.requests": "requests do not queue for threads here; see queued.max.request.bytes",
    "remote.log.copy.disable": _NO_TIERS,
    "remote.log.delete.on.disable": _NO_TIERS,
    "replica.alter.log.dirs.io.max.bytes.per.second": _ONE_FOLDER,
    "replica.socket.receive.buffer.bytes": "it is left to the operating system",
    "request.timeout.ms": _OWN_BOUNDS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "each transaction has a timer of its own",
    "transaction.state.log.load.buffer.size": _BLOCKS,
    "transaction.two.phase.commit.enable": "two-phase commit is not there yet",
    "unstable.api.versions.enable": "there are none",
    "unstable.feature.versions.enable": "there are none",
}


def why_without_effect(name: str) -> str | None:
    """Return why an option of this (broker-level) name changes nothing; None for one that does."""
    if name in _EXCEPT:
        return None
    return _REASONS.get(name) or next((why for prefix, why in _PREFIXES if name.startswith(prefix)), None)


def documentation(option: Option) -> str:
    """Return what the option does here, in a sentence or two."""
    why = why_without_effect(option.name)
    return option.doc if why is None else f"No effect: {why}. In Kafka: {option.doc}"
