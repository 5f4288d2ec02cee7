"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs."""

from __future__ import annotations

from typing import Any

from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, SILENCE_SECONDS, Answer, Session

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    s: Session, version: int, label: str, kind: int, name: str, keys: list[str] | None = None, **more: Any
) -> Answer:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return s.call("describe_configs", version, label, resources=[resource], **more)


def change(
    s: Session, label: str, kind: int, name: str, *changes: tuple[str, int, str | None], version: int = 1
) -> Answer:
    rows = [{"name": option, "config_operation": how, "value": value} for option, how, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    return s.call("incremental_alter_configs", version, label, resources=[resource], validate_only=False)


@scenario
def topic_configs_in_every_version(s: Session) -> None:
    topic = s.topic(configs={"retention.ms": "5000", "cleanup.policy": "compact"})
    for version in range(1, 5):
        describe(s, version, "all", TOPIC, topic)
        describe(s, version, "with synonyms", TOPIC, topic, include_synonyms=True, include_documentation=True)
        describe(s, version, "some", TOPIC, topic, ["retention.ms", "no.such.config"])
        describe(s, version, "none", TOPIC, topic, [])
        describe(s, version, "of an unknown topic", TOPIC, s.name("none"))
        describe(s, version, "of a bad name", TOPIC, "a/b")


@scenario
def broker_configs(s: Session) -> None:
    keys = ["log.segment.bytes", "num.partitions", "auto.create.topics.enable", "message.max.bytes", "node.id",
            "log.retention.hours", "log.retention.ms", "log.retention.minutes", "log.roll.hours", "log.roll.ms",
            "log.cleanup.policy", "compression.type", "min.insync.replicas", "default.replication.factor",
            "socket.request.max.bytes", "log.flush.interval.messages", "process.roles", "log.cleaner.enable",
            "log.message.timestamp.type", "unclean.leader.election.enable", "log.index.interval.bytes",
            "producer.id.expiration.ms", "fetch.max.bytes", "delete.topic.enable", "log.cleaner.threads"]  # fmt: skip
    for version in range(1, 5):
        describe(s, version, "", BROKER, "1", keys, include_synonyms=True)
    describe(s, 4, "cluster-wide", BROKER, "", None, include_synonyms=True)
    describe(s, 4, "of another broker", BROKER, "7", keys)
    describe(s, 4, "of a broker that is no number", BROKER, "one", keys)
    describe(s, 4, "of an unknown kind", 3, "x")


@scenario
def names_of_all_broker_configs(s: Session) -> None:
    resource = {"resource_type": BROKER, "resource_name": "1", "configuration_keys": None}
    answer = s.ask("describe_configs", 4, resources=[resource])
    assert isinstance(answer, dict)
    rows = {row["name"]: f"{row['config_type']} {row['read_only']}" for row in answer["results"][0]["configs"]}
    s.note("types and what is read-only, by name", dict(sorted(rows.items())))


@scenario
def topic_configs_are_changed(s: Session) -> None:
    topic = s.topic()
    for version in (0, 1):
        change(s, "set", TOPIC, topic, ("retention.ms", SET, "7000"), version=version)
        change(s, "append", TOPIC, topic, ("cleanup.policy", APPEND, "compact"), version=version)
        change(s, "append again", TOPIC, topic, ("cleanup.policy", APPEND, "compact"), version=version)
        change(s, "subtract", TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"), version=version)
        change(s, "delete", TOPIC, topic, ("retention.ms", DELETE, None), version=version)
        change(s, "delete what is not set", TOPIC, topic, ("segment.ms", DELETE, None), version=version)
        change(s, "delete what is unknown", TOPIC, topic, ("no.such.config", DELETE, None), version=version)
        change(s, "delete with a value", TOPIC, topic, ("segment.ms", DELETE, "5"), version=version)
        change(s, "set null", TOPIC, topic, ("segment.ms", SET, None), version=version)
        change(s, "append to a number", TOPIC, topic, ("segment.ms", APPEND, "5"), version=version)
        change(s, "set what is unknown", TOPIC, topic, ("no.such.config", SET, "5"), version=version)
        change(s, "set nonsense", TOPIC, topic, ("segment.bytes", SET, "many"), version=version)
        change(s, "set out of bounds", TOPIC, topic, ("segment.bytes", SET, "1"), version=version)
        change(s, "the same twice", TOPIC, topic, ("segment.ms", SET, "5"), ("segment.ms", SET, "6"), version=version)
        change(s, "an unknown operation", TOPIC, topic, ("segment.ms", 9, "5"), version=version)
        change(
            s, "one good, one bad", TOPIC, topic, ("segment.ms", SET, "50000"), ("flush.ms", SET, "x"), version=version
        )
        change(s, "nothing", TOPIC, topic, version=version)
        change(s, "an unknown topic", TOPIC, s.name("none"), ("segment.ms", SET, "5"), version=version)
        change(s, "an empty name", TOPIC, "", ("segment.ms", SET, "5"), version=version)
        change(s, "an unknown kind", 3, topic, ("segment.ms", SET, "5"), version=version)
    s.until(lambda answer: "compact" in str(answer), "describe_configs", 4, "in the end",
            resources=[{"resource_type": TOPIC, "resource_name": topic,
                        "configuration_keys": ["cleanup.policy", "retention.ms", "segment.ms"]}])  # fmt: skip


REFUSED_VALUES = [
    ("retention.ms", "-2"), ("retention.bytes", "-2"), ("local.retention.ms", "-3"), ("cleanup.policy", "shrink"),
    ("cleanup.policy", "compact,shrink"), ("cleanup.policy", ""), ("cleanup.policy", "compact,,delete"),
    ("segment.bytes", "1048575"), ("segment.bytes", "2147483648"), ("segment.ms", "0"), ("segment.jitter.ms", "-1"),
    ("segment.index.bytes", "3"), ("index.interval.bytes", "-1"), ("delete.retention.ms", "-1"),
    ("file.delete.delay.ms", "-1"), ("min.compaction.lag.ms", "-1"), ("max.compaction.lag.ms", "0"),
    ("min.cleanable.dirty.ratio", "1.1"), ("min.cleanable.dirty.ratio", "-0.1"), ("min.cleanable.dirty.ratio", "half"),
    ("compression.type", "brotli"), ("compression.gzip.level", "10"), ("compression.zstd.level", "100"),
    ("compression.lz4.level", "0"), ("min.insync.replicas", "0"), ("min.insync.replicas", "-1"),
    ("min.insync.replicas", "1.5"), ("unclean.leader.election.enable", "maybe"), ("preallocate", "1"),
    ("max.message.bytes", "-1"), ("flush.messages", "0"), ("flush.ms", "-1"), ("message.timestamp.type", "Never"),
    ("message.timestamp.before.max.ms", "-1"), ("message.timestamp.after.max.ms", "-1"), ("retention.ms", ""),
    ("retention.ms", "5e3"), ("retention.ms", "9223372036854775808"),
    ("leader.replication.throttled.replicas", "1:2:3"), ("leader.replication.throttled.replicas", "*,1:1"),
    ("remote.storage.enable", "true"), ("message.format.version", "2.0"), ("message.downconversion.enable", "false"),
    ("local.retention.bytes", "-3"), ("errors.deadletterqueue.topic.name", "x"),
]  # fmt: skip
CONTRADICTIONS = [
    {"min.compaction.lag.ms": "2000", "max.compaction.lag.ms": "1000"},
    {"min.compaction.lag.ms": "1000", "max.compaction.lag.ms": "1000"},
    {"retention.ms": "1000", "local.retention.ms": "2000"},
    {"retention.bytes": "1000", "local.retention.bytes": "2000"},
    {"segment.ms": "1000", "segment.jitter.ms": "2000"},
    {"segment.bytes": "1048576", "max.message.bytes": "2097152"},
    {"min.insync.replicas": "3"},
    {"cleanup.policy": "compact", "remote.storage.enable": "true"},
]


@scenario
def values_out_of_range_change_nothing(s: Session) -> None:
    topic = s.topic()
    for option, value in REFUSED_VALUES:
        change(s, f"{option}={value}", TOPIC, topic, ("segment.ms", SET, "70000"), (option, SET, value))
        creation = {"name": s.name("made"), "num_partitions": 1, "replication_factor": 1,
                    "configs": [{"name": option, "value": value}]}  # fmt: skip
        s.call(
            "create_topics", 7, f"with {option}={value}", topics=[creation], timeout=REQUEST_MS_MAX, validate_only=True
        )
    describe(s, 4, "unchanged", TOPIC, topic, [*dict(REFUSED_VALUES), "segment.ms"])


@scenario
def values_that_contradict_each_other(s: Session) -> None:
    for number, values in enumerate(CONTRADICTIONS):
        topic = s.topic(f"c{number}")
        label = " ".join(f"{option}={value}" for option, value in values.items())
        change(s, label, TOPIC, topic, *((option, SET, value) for option, value in values.items()))
        for option, value in values.items():
            change(s, f"{option}={value} alone, one after the other", TOPIC, topic, (option, SET, value))
        creation = {"name": s.name("made"), "num_partitions": 1, "replication_factor": 1,
                    "configs": [{"name": option, "value": value} for option, value in values.items()]}  # fmt: skip
        s.call("create_topics", 7, f"with {label}", topics=[creation], timeout=REQUEST_MS_MAX, validate_only=True)


@scenario
def broker_values_out_of_range(s: Session) -> None:
    for option, value in [
        ("log.retention.ms", "-2"), ("log.segment.bytes", "10"), ("log.cleaner.threads", "-1"),
        ("log.cleaner.io.max.bytes.per.second", "x"), ("log.cleaner.backoff.ms", "-1"),
        ("log.cleaner.delete.retention.ms", "-1"), ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleanup.policy", "shrink"), ("compression.type", "brotli"), ("min.insync.replicas", "0"),
        ("message.max.bytes", "-1"), ("unclean.leader.election.enable", "maybe"),
    ]:  # fmt: skip
        change(s, f"{option}={value}", BROKER, "", (option, SET, value))
    # An accepted value would be visible in every topic of later scenarios.
    change(s, "put back", BROKER, "", ("log.retention.ms", DELETE, None))


@scenario
def broker_values_of_compaction(s: Session) -> None:
    tried = [
        ("log.cleaner.dedupe.buffer.size", "1048575"), ("log.cleaner.dedupe.buffer.size", "1048576"),
        ("log.cleaner.dedupe.buffer.size", "1048577"), ("log.cleaner.dedupe.buffer.size", "0"),
        ("log.cleaner.dedupe.buffer.size", "-1"), ("log.cleaner.dedupe.buffer.size", "9223372036854775808"),
        ("log.cleaner.io.buffer.load.factor", "0"), ("log.cleaner.io.buffer.load.factor", "-1"),
        ("log.cleaner.io.buffer.load.factor", "2"), ("log.cleaner.io.buffer.load.factor", "x"),
        ("log.cleaner.io.max.bytes.per.second", "0"), ("log.cleaner.io.max.bytes.per.second", "-1"),
        ("log.cleaner.io.buffer.size", "-1"), ("log.cleaner.io.buffer.size", "0"),
        ("log.cleaner.threads", "0"), ("log.cleaner.threads", "3"), ("log.cleaner.backoff.ms", "0"),
        ("log.cleaner.min.compaction.lag.ms", "-1"), ("log.cleaner.max.compaction.lag.ms", "0"),
        ("log.cleaner.min.cleanable.ratio", "0"), ("log.cleaner.min.cleanable.ratio", "1"),
    ]  # fmt: skip
    for option, value in tried:
        change(s, f"{option}={value}", BROKER, "", (option, SET, value))
        change(s, f"without {option}={value}", BROKER, "", (option, DELETE, None))
    lags = (("log.cleaner.min.compaction.lag.ms", SET, "2000"), ("log.cleaner.max.compaction.lag.ms", SET, "1000"))
    change(s, "least lag over the greatest", BROKER, "", *lags)
    describe(s, 4, "unchanged", BROKER, "", sorted({option for option, _ in tried}))
    change(s, "put back", BROKER, "", *((option, DELETE, None) for option, *_ in lags))


@scenario
def the_same_resource_twice(s: Session) -> None:
    s.answer_seconds_max = SILENCE_SECONDS
    topic = s.topic()
    row = {
        "resource_type": TOPIC,
        "resource_name": topic,
        "configs": [{"name": "segment.ms", "config_operation": SET, "value": "70000"}],
    }
    s.call("incremental_alter_configs", 1, resources=[row, row])
    old = {"resource_type": TOPIC, "resource_name": topic, "configs": [{"name": "segment.ms", "value": "70000"}]}
    s.call("alter_configs", 2, resources=[old, old])
    one = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": ["segment.ms"]}
    s.call("describe_configs", 4, resources=[one, one])


@scenario
def changes_that_are_only_validated(s: Session) -> None:
    topic = s.topic()
    for value in ("80000", "nonsense"):
        row = {"resource_type": TOPIC, "resource_name": topic,
               "configs": [{"name": "segment.ms", "config_operation": SET, "value": value}]}  # fmt: skip
        s.call("incremental_alter_configs", 1, value, resources=[row], validate_only=True)
        s.call("alter_configs", 2, value, resources=[row], validate_only=True)
    describe(s, 4, "unchanged", TOPIC, topic, ["segment.ms"])


@scenario
def broker_configs_are_changed(s: Session) -> None:
    change(s, "set", BROKER, "1", ("log.cleaner.threads", SET, "2"))
    change(s, "delete", BROKER, "1", ("log.cleaner.threads", DELETE, None))
    change(s, "read-only", BROKER, "1", ("node.id", SET, "2"))
    change(s, "not dynamic", BROKER, "1", ("num.partitions", SET, "2"))
    change(s, "unknown", BROKER, "1", ("no.such.config", SET, "2"))
    change(s, "nonsense", BROKER, "1", ("log.cleaner.threads", SET, "x"))
    change(s, "cluster-wide", BROKER, "", ("message.max.bytes", SET, "1048588"))
    change(s, "cluster-wide delete", BROKER, "", ("message.max.bytes", DELETE, None))
    change(s, "per-broker only, cluster-wide", BROKER, "", ("listeners", SET, "PLAINTEXT://:1"))
    change(s, "another broker", BROKER, "7", ("log.cleaner.threads", SET, "2"))
    change(s, "no number", BROKER, "one", ("log.cleaner.threads", SET, "2"))


@scenario
def the_old_alter_in_every_version(s: Session) -> None:
    for version in range(3):
        topic = s.topic(f"v{version}", configs={"retention.ms": "5000"})

        def alter(label: str, name: str, *pairs: tuple[str, str | None], version: int = version) -> None:
            rows = [{"name": option, "value": value} for option, value in pairs]
            resource = {"resource_type": TOPIC, "resource_name": name, "configs": rows}
            s.call("alter_configs", version, label, resources=[resource], validate_only=False)

        alter("replace", topic, ("segment.ms", "60000"))
        alter("null", topic, ("segment.ms", None))
        alter("nonsense", topic, ("segment.ms", "x"))
        alter("unknown", topic, ("no.such.config", "x"))
        alter("unknown topic", s.name("none"), ("segment.ms", "60000"))
        alter("nothing", topic)
        s.until(lambda answer: "60000" not in str(answer), "describe_configs", 4, "in the end",
                resources=[{"resource_type": TOPIC, "resource_name": topic,
                            "configuration_keys": ["retention.ms", "segment.ms"]}])  # fmt: skip
