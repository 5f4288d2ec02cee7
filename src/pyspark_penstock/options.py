"""The options of a source and of a sink: read once, checked, and held as values.

Names are those of Spark's Kafka connector where it has them; case does not matter. `kafka.*` settings pass through
to the client. Refuses with a PenstockSparkError an option that does not exist, naming the nearest one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final

from pyspark_penstock.errors import PenstockSparkError, nearest
from pyspark_penstock.protocol.cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Cluster
from pyspark_penstock.protocol.keeping import kept
from pyspark_penstock.records.codec_names import CODECS

# Spark puts these among the options of every reader or writer.
_OF_SPARK: Final = frozenset({"checkpointlocation", "queryname", "path", "outputmode", "__provider__"})
_SHARED: Final = ("kafka.bootstrap.servers", "bootstrap.servers", "includeHeaders", "requestTimeout", "deadline")
SOURCE_OPTIONS: Final = (
    *_SHARED, "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger", "minPartitions", "maxRecordsPerPartition", "minRecordsPerTask", "failOnDataLoss",
    "isolation", "groupId", "commitOffsets", "mode", "dataFolder", "fetchBytes", "rowsPerBatch",
)  # fmt: skip
SINK_OPTIONS: Final = (
    *_SHARED, "topic", "guarantee", "transactionTimeout", "transactionalIdPrefix", "decisionTopic", "compression",
    "batchBytes",
)  # fmt: skip
CLIENT_SETTINGS: Final = (
    "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password",
    "ssl.truststore.location", "ssl.ca.location", "ssl.keystore.location", "ssl.certificate.location",
    "ssl.key.location", "ssl.key.password", "ssl.endpoint.identification.algorithm", "isolation.level", "group.id",
    "compression.type", "transaction.timeout.ms", "request.timeout.ms", "max.partition.fetch.bytes", "fetch.max.bytes",
    "max.request.size", "batch.size",
)  # fmt: skip
# Settings of Java's client that change nothing here; taken so that a working set of options moves over as it is.
_WITHOUT_EFFECT: Final = frozenset({
    "acks", "enable.idempotence", "linger.ms", "buffer.memory", "retries", "delivery.timeout.ms", "client.id",
    "fetch.min.bytes", "fetch.max.wait.ms", "max.poll.records", "session.timeout.ms",
    "max.in.flight.requests.per.connection", "ssl.truststore.type", "ssl.truststore.password",
    "ssl.keystore.type", "ssl.keystore.password", "ssl.protocol", "ssl.enabled.protocols",
    "client.dns.lookup", "retry.backoff.ms", "max.block.ms", "metadata.max.age.ms",
    "receive.buffer.bytes", "send.buffer.bytes", "default.api.timeout.ms",
})  # fmt: skip
# What Spark's connector refuses too, with the option to use instead.
_TAKEN: Final = {
    "auto.offset.reset": "startingOffsets",
    "key.deserializer": "a cast in Spark",
    "value.deserializer": "a cast in Spark",
    "key.serializer": "a cast in Spark",
    "value.serializer": "a cast in Spark",
    "enable.auto.commit": "commitOffsets",
    "transactional.id": "transactionalIdPrefix",
}

PartitionOffsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Position:
    """Where to begin or end: `everywhere` (an offset, or EARLIEST, LATEST, a timestamp), or given by partition."""

    everywhere: int = LATEST
    by_partition: PartitionOffsets = field(default_factory=dict)
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True)
class Connect:
    """How to reach the cluster."""

    bootstrap: str
    settings: Mapping[str, str]
    deadline_s: float
    request_timeout_s: float

    def cluster(self) -> Cluster:
        return Cluster(self.bootstrap, self.settings, self.deadline_s, self.request_timeout_s)

    def kept(self) -> AbstractContextManager[Cluster]:
        """A cluster whose connections stay open for the next user in this process."""
        return kept((self.bootstrap, *sorted(self.settings.items()), self.deadline_s), self.cluster)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a source reads, and how."""

    connect: Connect
    topics: tuple[str, ...]
    pattern: str | None
    assigned: Mapping[str, tuple[int, ...]] | None
    starting: Position
    ending: Position
    rows_per_trigger_max: int | None
    rows_per_trigger_least: int | None
    partitions_least: int | None
    rows_per_partition_max: int | None
    rows_per_task_least: int
    fail_on_data_loss: bool
    isolation: int
    include_headers: bool
    group: str | None
    mode: str
    data_folder: str | None
    fetch_bytes: int
    rows_per_batch: int

    @property
    def subscription(self) -> str:
        """In words, for messages and for the default group."""
        if self.pattern is not None:
            return self.pattern
        return ",".join(self.assigned if self.assigned is not None else self.topics)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where a sink writes, and with which promise."""

    connect: Connect
    topic: str | None
    exactly_once: bool
    transaction_timeout_ms: int
    id_prefix: str
    decision_topic: str
    codec: int
    batch_bytes: int
    include_headers: bool


def source_options(given: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    options = _checked(given, SOURCE_OPTIONS, "source")
    kafka = _client_settings(options)
    named = [name for name in ("subscribe", "subscribepattern", "assign") if name in options]
    if len(named) != 1:
        raise PenstockSparkError(
            "say what to read with exactly one of the options subscribe (topics), subscribePattern (a regular "
            f"expression) or assign (JSON); {len(named)} are given"
        )
    starting = _position(options, "starting", default="latest" if streaming else "earliest")
    ending = _position(options, "ending", default="latest")
    if streaming and any(name.startswith("ending") for name in options):
        raise PenstockSparkError("endingOffsets and endingTimestamp are for batch reads: a stream has no end")
    if not streaming and starting.everywhere == LATEST and not starting.by_partition and not starting.is_timestamp:
        raise PenstockSparkError("startingOffsets: a batch read cannot start at 'latest': there is nothing behind it")
    if ending.everywhere == EARLIEST and not ending.is_timestamp:
        raise PenstockSparkError("endingOffsets: a batch read cannot end at 'earliest': there is nothing before it")
    folder = options.get("datafolder")
    mode = _choice(options, "mode", ("fetch", "segments", "auto"), "fetch")
    if mode != "fetch" and folder is None:
        raise PenstockSparkError(f"mode {mode!r} reads a broker's files: say where they are with the option dataFolder")
    return SourceOptions(
        connect=_connect(options, kafka),
        topics=tuple(one.strip() for one in options.get("subscribe", "").split(",") if one.strip()),
        pattern=_pattern(options.get("subscribepattern")),
        assigned=_assigned(options["assign"]) if "assign" in options else None,
        starting=starting,
        ending=ending,
        rows_per_trigger_max=_number(options, "maxOffsetsPerTrigger"),
        rows_per_trigger_least=_number(options, "minOffsetsPerTrigger"),
        partitions_least=_number(options, "minPartitions"),
        rows_per_partition_max=_number(options, "maxRecordsPerPartition"),
        rows_per_task_least=_number(options, "minRecordsPerTask") or 200,
        fail_on_data_loss=_flag(options, "failOnDataLoss", True),
        isolation=_isolation(options, kafka),
        include_headers=_flag(options, "includeHeaders", False),
        group=_group(options, kafka),
        mode=mode,
        data_folder=folder,
        fetch_bytes=_number(options, "fetchBytes") or int(kafka.get("max.partition.fetch.bytes", 8 * 1024 * 1024)),
        rows_per_batch=_number(options, "rowsPerBatch") or 32_768,
    )


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    options = _checked(given, SINK_OPTIONS, "sink")
    kafka = _client_settings(options)
    guarantee = _choice(options, "guarantee", ("exactly-once", "at-least-once"), "exactly-once")
    codec = options.get("compression", kafka.get("compression.type", "none")).lower()
    if codec not in CODECS:
        raise PenstockSparkError(f"compression {codec!r} is not one of {', '.join(CODECS)}.{nearest(codec, CODECS)}")
    return SinkOptions(
        connect=_connect(options, kafka),
        topic=options.get("topic"),
        exactly_once=guarantee == "exactly-once",
        transaction_timeout_ms=_number(options, "transactionTimeout")
        or int(kafka.get("transaction.timeout.ms", 900_000)),
        id_prefix=options.get("transactionalidprefix", "penstock-spark"),
        decision_topic=options.get("decisiontopic", "__penstock_spark_decisions"),
        codec=CODECS[codec],
        batch_bytes=_number(options, "batchBytes")
        or int(kafka.get("batch.size", min(int(kafka.get("max.request.size", 1_000_000)), 1_000_000))),
        include_headers=_flag(options, "includeHeaders", True),
    )


def _checked(given: Mapping[str, str], known: tuple[str, ...], what: str) -> dict[str, str]:
    names = {name.lower() for name in known}
    options = {name.lower(): value for name, value in given.items()}
    for name in options:
        if name in names or name in _OF_SPARK or name.startswith("kafka."):
            continue
        raise PenstockSparkError(f"the penstock {what} has no option '{name}'.{nearest(name, known)}")
    return options


def _client_settings(options: Mapping[str, str]) -> dict[str, str]:
    settings = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    for name in settings:
        if name in _TAKEN:
            raise PenstockSparkError(f"kafka.{name} cannot be set here: use {_TAKEN[name]}")
        if name not in CLIENT_SETTINGS and name not in _WITHOUT_EFFECT:
            known = [f"kafka.{one}" for one in CLIENT_SETTINGS]
            raise PenstockSparkError(f"there is no client setting 'kafka.{name}'.{nearest(f'kafka.{name}', known)}")
    return settings


def _connect(options: Mapping[str, str], kafka: Mapping[str, str]) -> Connect:
    bootstrap = kafka.get("bootstrap.servers") or options.get("bootstrap.servers")
    if not bootstrap:
        raise PenstockSparkError(
            "the option kafka.bootstrap.servers is missing: name the brokers as host:port,host:port"
        )
    security = {name: value for name, value in kafka.items() if name.startswith(("security.", "sasl.", "ssl."))}
    protocol = security.get("security.protocol", "PLAINTEXT").upper()
    known = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    if protocol not in known:
        raise PenstockSparkError(f"kafka.security.protocol {protocol!r} is not one of {', '.join(known)}")
    return Connect(
        bootstrap,
        security,
        _seconds(options, "deadline", 60.0),
        _seconds(options, "requestTimeout", int(kafka.get("request.timeout.ms", 30_000)) / 1000),
    )


def _seconds(options: Mapping[str, str], name: str, default: float) -> float:
    """A time in milliseconds, as the options of Kafka's clients are."""
    given = _number(options, name)
    return default if given is None else given / 1000


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise PenstockSparkError(f"the option {name} is {text!r}, which is not a whole number") from None
    if value <= 0:
        raise PenstockSparkError(f"the option {name} is {value}, and must be at least 1")
    return value


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise PenstockSparkError(f"the option {name} is {text!r}: say true or false")
    return text.lower() == "true"


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = options.get(name.lower(), default).lower().replace("_", "-")
    if value not in choices:
        raise PenstockSparkError(
            f"the option {name} is {value!r}: say one of {', '.join(choices)}.{nearest(value, choices)}"
        )
    return value


def _isolation(options: Mapping[str, str], kafka: Mapping[str, str]) -> int:
    text = options.get("isolation", kafka.get("isolation.level", "read_committed")).lower()
    levels = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
    if text not in levels:
        raise PenstockSparkError(f"isolation {text!r}: say read_committed or read_uncommitted")
    return levels[text]


def _group(options: Mapping[str, str], kafka: Mapping[str, str]) -> str | None:
    if not _flag(options, "commitOffsets", True):
        return None
    subscription = options.get("subscribe") or options.get("subscribepattern") or options.get("assign") or ""
    default = "spark-" + re.sub(r"[^A-Za-z0-9._-]+", "-", subscription).strip("-")
    return options.get("groupid") or kafka.get("group.id") or default


def _pattern(text: str | None) -> str | None:
    if text is not None:
        try:
            re.compile(text)
        except re.error as error:
            raise PenstockSparkError(f"subscribePattern {text!r} is not a regular expression: {error}") from None
    return text


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        return {
            str(name): tuple(sorted(int(one) for one in partitions)) for name, partitions in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise PenstockSparkError(f'assign must be JSON like {{"topic": [0, 1]}}, and is {text!r}') from None


def _position(options: Mapping[str, str], side: str, *, default: str) -> Position:
    """The strongest of the three ways to say it: one timestamp, timestamps by partition, offsets."""
    stamp = options.get(f"{side}timestamp")
    if stamp is not None:
        if not stamp.lstrip("-").isdigit() or int(stamp) < 0:
            raise PenstockSparkError(f"{side}Timestamp must be milliseconds since 1970, and is {stamp!r}")
        return Position(everywhere=int(stamp), is_timestamp=True)
    by_stamp = options.get(f"{side}offsetsbytimestamp")
    if by_stamp is not None:
        return Position(by_partition=_by_partition(f"{side}OffsetsByTimestamp", by_stamp), is_timestamp=True)
    text = options.get(f"{side}offsets", default)
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return Position(everywhere=EARLIEST if word == "earliest" else LATEST)
    return Position(by_partition=_by_partition(f"{side}Offsets", text))


def _by_partition(name: str, text: str) -> dict[str, dict[int, int]]:
    try:
        return {
            str(topic): {int(partition): int(offset) for partition, offset in offsets.items()}
            for topic, offsets in json.loads(text).items()
            if not topic.startswith("#")
        }
    except (ValueError, TypeError, AttributeError):
        raise PenstockSparkError(
            f'{name} must be earliest, latest or JSON like {{"topic": {{"0": 23, "1": -2}}}} '
            f"(-2 is earliest, -1 latest), and is {text!r}"
        ) from None
