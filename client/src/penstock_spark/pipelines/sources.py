"""Completion of the sources in a pipeline's files: the broker, the provider, and the start of a replay.

The files contain only `spark.readStream.format("penstock").option("subscribe", "orders").load()`. While their queries
are defined, this module completes readers of that format; with provider jvm they become Spark's Kafka connector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

FORMAT: Final = "penstock"
# Our options, and their names in Spark's connector; None if it has no equivalent.
_JVM: Final = {
    "isolation": "kafka.isolation.level",
    "groupid": "kafka.group.id",
    "maxrecordsperpartition": "maxRecordsPerPartition",
    "minrecordspertask": None,
    "commitoffsets": None,
    "mode": None,
    "datafolder": None,
    "fetchbytes": None,
    "rowsperbatch": None,
    "guarantee": None,
    "transactiontimeout": None,
    "transactionalidprefix": None,
    "decisiontopic": None,
    "batchbytes": None,
    "requesttimeout": None,
    "deadline": None,
    "compression": "kafka.compression.type",
}


@dataclass(frozen=True, slots=True)
class Replay:
    """Where flows restart: a timestamp, offsets by topic and partition, or one offset for all partitions."""

    timestamp_ms: int | None = None
    offset: int | None = None
    offsets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def options(self, subscription: str, partitions: Mapping[str, int]) -> dict[str, str]:
        """Return the source options for this start. `partitions` is the partition count of each topic."""
        if self.timestamp_ms is not None:
            return {"startingTimestamp": str(self.timestamp_ms)}
        topics = [name.strip() for name in subscription.split(",")]
        wanted: dict[str, dict[str, int]] = {}
        for name in topics:
            given = self.offsets.get(name, {})
            everywhere = self.offset if self.offset is not None else -2
            wanted[name] = {str(one): given.get(str(one), everywhere) for one in range(partitions.get(name, 1))}
        return {"startingOffsets": json.dumps(wanted)}


@dataclass(slots=True)
class Completion:
    """The options to add. `seen` collects the topics that each flow reads."""

    bootstrap: str
    is_jvm: bool
    replay: Replay | None = None
    partitions: Any = None
    seen: list[str] = field(default_factory=list)
    client: Mapping[str, str] = field(default_factory=dict)

    def complete(self, given: Mapping[str, str], *, streaming: bool) -> tuple[str, dict[str, str]]:
        """Return the format to load, and the options to add to the given ones."""
        options = {name.lower(): value for name, value in given.items()}
        added = client_options(self.bootstrap, self.client, options)
        subscription = options.get("subscribe") or options.get("subscribepattern") or options.get("assign") or ""
        self.seen.append(subscription)
        if streaming and self.replay is not None and "subscribe" in options:
            counts = self.partitions(subscription) if self.partitions is not None else {}
            added |= self.replay.options(subscription, counts)
        if streaming and not any(name.startswith("starting") for name in options) and self.replay is None:
            # A pipeline's results should include all records unless the options say otherwise.
            added["startingOffsets"] = "earliest"
        if self.is_jvm:
            added |= _for_jvm(options)
        return ("kafka" if self.is_jvm else FORMAT), added


def client_options(bootstrap: str, settings: Mapping[str, str], given: Iterable[str]) -> dict[str, str]:
    """Return the connection options of a source or sink, unless its own options set them."""
    set_names = {name.lower() for name in given}
    if set_names & {"kafka.bootstrap.servers", "bootstrap.servers"}:
        return {}  # possibly another cluster, which must not receive this one's secrets
    wanted = {"bootstrap.servers": bootstrap, **settings}
    return {f"kafka.{name}": value for name, value in wanted.items() if f"kafka.{name}" not in set_names}


def _for_jvm(options: Mapping[str, str]) -> dict[str, str]:
    return {other: options[name] for name, other in _JVM.items() if other and name in options}


def sink_for_jvm(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a sink in the form of Spark's connector."""
    kept = {name: value for name, value in options.items() if name.lower() not in _JVM}
    return kept | _for_jvm({name.lower(): value for name, value in options.items()})


@contextmanager
def completed(completion: Completion) -> Iterator[None]:
    """Complete readers of our format when they load, within this context."""
    patches: list[tuple[type, str, Any]] = []
    try:
        for kind, streaming in _readers():
            for name, made in _methods(kind, completion, streaming=streaming).items():
                patches.append((kind, name, kind.__dict__[name]))
                setattr(kind, name, made)
        yield
    finally:
        for kind, name, before in reversed(patches):
            setattr(kind, name, before)


def _readers() -> list[tuple[type, bool]]:
    from pyspark.sql.readwriter import DataFrameReader
    from pyspark.sql.streaming.readwriter import DataStreamReader

    found: list[tuple[type, bool]] = [(DataStreamReader, True), (DataFrameReader, False)]
    try:
        from pyspark.sql.connect.readwriter import DataFrameReader as ConnectReader
        from pyspark.sql.connect.streaming.readwriter import DataStreamReader as ConnectStreamReader
    except ImportError:  # Spark Connect needs grpc
        return found
    return [*found, (ConnectStreamReader, True), (ConnectReader, False)]


def _methods(kind: Any, completion: Completion, *, streaming: bool) -> dict[str, Any]:
    real_format, real_option, real_options, real_load = kind.format, kind.option, kind.options, kind.load

    def note(reader: Any) -> dict[str, str]:
        noted: dict[str, str] = reader.__dict__.setdefault("_penstock_options", {})
        return noted

    def format(self: Any, source: str) -> Any:
        self.__dict__["_penstock_format"] = source
        return real_format(self, source)

    def option(self: Any, key: str, value: Any) -> Any:
        note(self)[key] = str(value)
        return real_option(self, key, value)

    def options(self: Any, **given: Any) -> Any:
        note(self).update({key: str(value) for key, value in given.items()})
        return real_options(self, **given)

    def load(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **given: Any) -> Any:
        named = format or self.__dict__.get("_penstock_format")
        if named == FORMAT:
            noted = note(self) | {key: str(value) for key, value in given.items()}
            format, added = completion.complete(noted, streaming=streaming)
            given |= added
        return real_load(self, path, format, schema, **given)

    return {"format": format, "option": option, "options": options, "load": load}
