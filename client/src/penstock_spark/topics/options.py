"""The options of sources and sinks, parsed and checked.

Names are those of Spark's Kafka connector if it has the option; case does not matter. `kafka.*` settings are passed to
the client. An unknown option raises PenstockClientError, which names the most similar one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock_client.connect import ConnectionOptions, connection_options
from penstock_client.errors import PenstockClientError, nearest
from penstock_client.protocol.cluster import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock_client.records.codec_names import CODECS
from penstock_client.scan import ScanOptions

# Spark adds these to the options of every reader or writer.
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
# Settings that Spark's connector rejects too, with the option to use instead.
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
    """Where to start or end: `everywhere` (an offset, EARLIEST, LATEST or a timestamp), or by partition."""

    everywhere: int = LATEST
    by_partition: PartitionOffsets = field(default_factory=dict)
    is_timestamp: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(ScanOptions):
    """What a source reads, and how."""

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
    include_headers: bool
    group: str | None
    mode: str
    data_folder: str | None

    @property
    def subscription(self) -> str:
        """Return a description, for messages and for the default group."""
        if self.pattern is not None:
            return self.pattern
        return ",".join(self.assigned if self.assigned is not None else self.topics)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where a sink writes, and with which guarantee."""

    connect: ConnectionOptions
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
        raise PenstockClientError(
            "set exactly one of the options subscribe (topics), subscribePattern (a regular "
            f"expression) or assign (JSON); {len(named)} are set"
        )
    starting = _position(options, "starting", default="latest" if streaming else "earliest")
    ending = _position(options, "ending", default="latest")
    if streaming and any(name.startswith("ending") for name in options):
        raise PenstockClientError("endingOffsets and endingTimestamp apply only to batch reads: a stream has no end")
    if not streaming and starting.everywhere == LATEST and not starting.by_partition and not starting.is_timestamp:
        raise PenstockClientError("startingOffsets: a batch read cannot start at 'latest', because nothing follows it")
    if ending.everywhere == EARLIEST and not ending.is_timestamp:
        raise PenstockClientError("endingOffsets: a batch read cannot end at 'earliest', because nothing precedes it")
    folder = options.get("datafolder")
    mode = _choice(options, "mode", ("fetch", "segments", "auto"), "fetch")
    if mode != "fetch" and folder is None:
        raise PenstockClientError(f"mode {mode!r} reads a broker's files: set the option dataFolder to their directory")
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
        raise PenstockClientError(f"compression {codec!r} is not one of {', '.join(CODECS)}.{nearest(codec, CODECS)}")
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
        raise PenstockClientError(f"unknown option '{name}' of the penstock {what}.{nearest(name, known)}")
    return options


def _client_settings(options: Mapping[str, str]) -> dict[str, str]:
    settings = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
    for name in settings:
        if name in _TAKEN:
            raise PenstockClientError(f"kafka.{name} cannot be set here: use {_TAKEN[name]}")
    if "bootstrap.servers" in options:
        settings.setdefault("bootstrap.servers", options["bootstrap.servers"])
    timeout = _number(options, "requestTimeout")
    if timeout is not None:
        settings["request.timeout.ms"] = str(timeout)
    return settings


def _connect(options: Mapping[str, str], kafka: Mapping[str, str]) -> ConnectionOptions:
    return connection_options(kafka, deadline_s=(_number(options, "deadline") or 60_000) / 1000, prefix="kafka.")


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise PenstockClientError(f"the option {name} is {text!r}, which is not an integer") from None
    if value <= 0:
        raise PenstockClientError(f"the option {name} is {value}, but must be at least 1")
    return value


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise PenstockClientError(f"the option {name} is {text!r}: set it to true or false")
    return text.lower() == "true"


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    value = options.get(name.lower(), default).lower().replace("_", "-")
    if value not in choices:
        raise PenstockClientError(
            f"the option {name} is {value!r}: use one of {', '.join(choices)}.{nearest(value, choices)}"
        )
    return value


def _isolation(options: Mapping[str, str], kafka: Mapping[str, str]) -> int:
    text = options.get("isolation", kafka.get("isolation.level", "read_committed")).lower()
    levels = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
    if text not in levels:
        raise PenstockClientError(f"the option isolation is {text!r}: use read_committed or read_uncommitted")
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
            raise PenstockClientError(f"subscribePattern {text!r} is not a regular expression: {error}") from None
    return text


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        return {
            str(name): tuple(sorted(int(one) for one in partitions)) for name, partitions in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise PenstockClientError(f'assign must be JSON like {{"topic": [0, 1]}}, but is {text!r}') from None


def _position(options: Mapping[str, str], side: str, *, default: str) -> Position:
    """Return the position by precedence: one timestamp, timestamps by partition, offsets."""
    stamp = options.get(f"{side}timestamp")
    if stamp is not None:
        if not stamp.lstrip("-").isdigit() or int(stamp) < 0:
            raise PenstockClientError(f"{side}Timestamp must be in milliseconds since 1970, but is {stamp!r}")
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
        raise PenstockClientError(
            f'{name} must be earliest, latest or JSON like {{"topic": {{"0": 23, "1": -2}}}} '
            f"(-2 is earliest, -1 latest), but is {text!r}"
        ) from None
