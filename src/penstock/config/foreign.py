"""Kafka options that Penstock does not implement, in two groups.

MEANINGLESS: thread pools, purgatories, the Java virtual machine. They are ignored, so that a
properties file written for Kafka still works. UNSUPPORTED: options that operators rely on, such as
policies. Ignoring those would mislead the operator, so the broker refuses to start.
"""

from typing import Final

from penstock.config.broker_security import SECURITY_OPTIONS

_MEANINGLESS_PREFIXES: Final = ("remote.log.", "zookeeper.")
_UNSUPPORTED_PREFIXES: Final = ("ssl.", "sasl.", "delegation.token.")
_DECLARED_PREFIX: Final = "sasl.kerberos."
_DECLARED: Final = frozenset(option.name for option in SECURITY_OPTIONS)

MEANINGLESS: Final = frozenset({
    "alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds",
    "config.providers", "controller.performance.always.log.threshold.ms",
    "controller.performance.sample.period.ms", "controller.socket.timeout.ms",
    "delete.records.purgatory.purge.interval.requests", "early.start.listeners",
    "fetch.purgatory.purge.interval.requests", "follower.fetch.last.tiered.offset.enable",
    "group.coordinator.background.threads", "group.coordinator.threads", "group.share.initialize.retry.interval.ms",
    "group.share.persister.class.name", "inter.broker.protocol.version", "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes", "internal.metadata.max.batch.size.in.bytes",
    "kafka.metrics.polling.interval.secs", "kafka.metrics.reporters", "leader.imbalance.per.broker.percentage",
    "log.message.downconversion.enable", "log.message.format.version", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms",
    "num.replica.alter.log.dirs.threads",
    "producer.purgatory.purge.interval.requests", "remote.fetch.max.wait.ms",
    "remote.list.offsets.request.timeout.ms", "server.max.startup.time.ms", "share.coordinator.cached.buffer.max.bytes",
    "share.coordinator.load.buffer.size", "share.coordinator.threads",
    "share.fetch.purgatory.purge.interval.requests", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "telemetry.max.bytes", "unclean.leader.election.interval.ms",
})  # fmt: skip

UNSUPPORTED: Final = frozenset({
    "alter.config.policy.class.name", "client.quota.callback.class",
    "create.topic.policy.class.name", "principal.builder.class", "remote.log.storage.system.enable",
    "security.providers",
})  # fmt: skip


def is_unsupported(name: str) -> bool:
    if name in _DECLARED or name.startswith(_DECLARED_PREFIX):
        return False
    return name in UNSUPPORTED or name.startswith(_UNSUPPORTED_PREFIXES)


def is_meaningless(name: str) -> bool:
    return not is_unsupported(name) and (name in MEANINGLESS or name.startswith(_MEANINGLESS_PREFIXES))
