"""The resolved options of a broker and of a topic, and the source of each value.

`BrokerSettings` is immutable and consists of layers: defaults, static values (properties file, then
command line), dynamic values for all brokers, dynamic values for this broker. A change creates a
new object. `topic_settings` applies a topic's overrides. An unknown name or a bad value at startup
raises StartupError; a bad value of a topic raises InvalidConfig.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from penstock.config.broker import BROKER
from penstock.config.foreign import is_meaningless, is_unsupported
from penstock.config.listeners import MECHANISM_PREFIXES, check_security
from penstock.config.no_effect import why_without_effect
from penstock.config.option import HOUR_MS, MIB, MINUTE_MS, Option, Value, parse, render
from penstock.config.topic import TOPIC
from penstock.model.errors import InvalidConfig, StartupError

_DEFAULTS: Final[Mapping[str, Value]] = {name: option.default for name, option in BROKER.items()}
_TOPIC_CACHE_SIZE_MAX: Final = 1024
CLUSTER_SIZE_MIN: Final = 3
"""The number of controllers from which a cluster survives the loss of one node."""
_CLUSTER_DEFAULTS: Final[Mapping[str, Value]] = {
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
}
"""Kafka's defaults, which a single node cannot satisfy."""
_TWO_HOST_DEFAULTS: Final[Mapping[str, Value]] = {
    name: 2 if name.endswith("replication.factor") else 1 for name in _CLUSTER_DEFAULTS
}
"""The defaults for controllers on two hosts: a third replica would share a host with another one."""


class Source(IntEnum):
    """The source of a value, as numbered by DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One of the sources that an option's value may come from."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """All options of one topic, resolved. Fields have the names of the options."""

    cleanup_policy: frozenset[str]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_mode: str
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    local_retention_bytes: int
    local_retention_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy


class BrokerSettings(Mapping[str, Any]):
    """The options of one broker by Kafka's names: `settings["num.partitions"]`.

    `ignored` lists the options that were given and change nothing: Kafka options that do not apply here or
    have no effect, and dynamic values that are no longer valid (a node of another version may have written them).
    """

    __slots__ = ("_cluster", "_defaults", "_node", "_static", "_topics", "_values", "ignored")

    def __init__(self, static: Mapping[str, str] | None = None) -> None:
        self._static = _parse_static(static or {})
        self._cluster: Mapping[str, Value] = {}
        self._node: Mapping[str, Value] = {}
        self._defaults = _defaults_for(self._static)
        self._values: Mapping[str, Value] = {**self._defaults, **self._static}
        self._topics: dict[tuple[tuple[str, str], ...], TopicSettings] = {}
        self.ignored: tuple[str, ...] = tuple(sorted(name for name in static or {} if _changes_nothing(name)))

    @classmethod
    def load(
        cls, *, file: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None
    ) -> "BrokerSettings":
        """Build the settings from a properties file and the command line, which takes precedence."""
        settings = cls({**(file or {}), **(overrides or {})})
        try:
            check_broker(settings)
        except InvalidConfig as problem:
            raise StartupError(problem.message) from None
        return settings

    def with_dynamic(self, *, cluster: Mapping[str, str], node: Mapping[str, str]) -> "BrokerSettings":
        """Return these static values with other dynamic values: those of all brokers, then of this one."""
        changed = object.__new__(BrokerSettings)
        ignored = [name for name in self.ignored if _changes_nothing(name)]
        changed._static = self._static
        changed._defaults = self._defaults
        changed._cluster = _parse_dynamic(cluster, ignored)
        changed._node = _parse_dynamic(node, ignored)
        changed._values = {**self._defaults, **self._static, **changed._cluster, **changed._node}
        changed._topics = {}
        changed.ignored = tuple(sorted(ignored))
        return changed

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), f"{name} is not a number here"
        return value

    def flag(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is not a boolean"
        return value

    def text(self, name: str) -> str:
        value = self._values[name]
        assert isinstance(value, str), f"{name} is not a string here"
        return value

    def words(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        assert isinstance(value, tuple), f"{name} is not a list here"
        return value

    def static(self) -> Mapping[str, Value]:
        """Return the values given at startup."""
        return self._static

    def source(self, name: str) -> Source:
        if name in self._node:
            return Source.DYNAMIC_BROKER
        if name in self._cluster:
            return Source.DYNAMIC_DEFAULT_BROKER
        return Source.STATIC_BROKER if name in self._static else Source.DEFAULT

    def synonyms(self, name: str) -> list[Synonym]:
        """Return every source that has a value for the option, the effective one first.

        As in Kafka, fallback options are listed only if the option itself is set.
        """
        option = option_of(name)
        assert option is not None, f"no option is called {name}"
        chain = [(name, option), *((other.name, other) for other in _chain(option) if other.name != name)]
        found = [
            Synonym(called, _shown(option, layer[called]), source)
            for layer, source in (
                (self._node, Source.DYNAMIC_BROKER),
                (self._cluster, Source.DYNAMIC_DEFAULT_BROKER),
                (self._static, Source.STATIC_BROKER),
                (self._defaults, Source.DEFAULT),
            )
            for called, option in chain
            if layer.get(called) is not None
        ]
        while found and found[0].name != name:
            del found[0]
        return found

    def topic_default(self, option: Option) -> Value:
        """Return the value for topics that do not set the option."""
        if not option.at_broker:
            return option.default
        value = None
        for candidate in _chain(option):
            value = self._values[candidate.name]
            if value is not None:
                unit = _UNIT_MS.get(candidate.name.rpartition(".")[2], 1)
                value = value * unit if unit != 1 and isinstance(value, int) else value
                break
        # For brokers any negative number means no limit; the topic option allows only -1.
        return -1 if option.topic == "retention.ms" and isinstance(value, int) and value < 0 else value


def _changes_nothing(name: str) -> bool:
    return is_meaningless(name) or why_without_effect(name) is not None


def _defaults_for(static: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return the defaults: from three controllers on, a cluster keeps three replicas, or one on each host if fewer.

    Controllers on a single host are a cluster for tests and trials: it behaves as one with as many hosts.
    """
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        listed = static.get(name)
        if isinstance(listed, tuple) and len(listed) >= CLUSTER_SIZE_MIN:
            hosts = {str(address).rpartition("@")[2].rpartition(":")[0].lower() for address in listed}
            return {**_DEFAULTS, **(_TWO_HOST_DEFAULTS if len(hosts) == 2 else _CLUSTER_DEFAULTS)}
    return _DEFAULTS


_UNIT_MS: Final = {"hours": HOUR_MS, "minutes": MINUTE_MS}


def topic_settings(broker: BrokerSettings, overrides: Mapping[str, str] | None = None) -> TopicSettings:
    """Return a topic's settings; topics with equal overrides share one object, because most set few."""
    key = tuple(sorted(overrides.items())) if overrides else ()
    cached = broker._topics.get(key)
    if cached is None:
        cached = _build_topic_settings(resolve_topic(broker, overrides or {}))
        if len(broker._topics) >= _TOPIC_CACHE_SIZE_MAX:
            broker._topics.clear()
        broker._topics[key] = cached
    return cached


def resolve_topic(broker: BrokerSettings, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Return the value of every topic option by its topic-level name, after all checks."""
    values = {name: broker.topic_default(option) for name, option in TOPIC.items()}
    for name, text in overrides.items():
        option = TOPIC.get(name)
        if option is None:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        values[name] = parse(option, text, name=name)
    check_topic(values)
    return values


def check_topic(values: Mapping[str, Value]) -> None:
    """Check the rules that involve several options of a topic."""
    _check_compaction_lags(values["min.compaction.lag.ms"], values["max.compaction.lag.ms"])
    if values["remote.storage.enable"]:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def check_broker(settings: Mapping[str, Value]) -> None:
    """Check the rules that involve several options of a broker, or that differ from those of topics."""
    _check_compaction_lags(settings["log.cleaner.min.compaction.lag.ms"], settings["log.cleaner.max.compaction.lag.ms"])
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0), ("log.flush.interval.ms", 0)):
        value = settings[name]
        if isinstance(value, int) and value < least:
            raise InvalidConfig(f"{name} must be greater than or equal to {least}")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if settings[name] == 0:
            raise InvalidConfig(f"{name} must be unlimited (-1) or, greater than or equal to 1")
    _check_cleaner(settings)
    check_security(settings)


def _check_cleaner(settings: Mapping[str, Value]) -> None:
    """Reject values that would stop compaction. Kafka accepts some, and its cleaner then silently does nothing."""
    threads, memory, load, rate = (
        settings[f"log.cleaner.{name}"]
        for name in ("threads", "dedupe.buffer.size", "io.buffer.load.factor", "io.max.bytes.per.second")
    )
    assert isinstance(threads, int) and isinstance(memory, int), "both have defaults"
    assert isinstance(load, int | float) and isinstance(rate, int | float), "both have defaults"
    if threads < 1:
        raise InvalidConfig(f"log.cleaner.threads is {threads}, but must be at least 1")
    if not 0 < load <= 1:
        raise InvalidConfig(f"log.cleaner.io.buffer.load.factor is {load}, but must be above 0 and at most 1")
    if rate <= 0:
        raise InvalidConfig(f"log.cleaner.io.max.bytes.per.second is {rate}, but must be above 0")
    if memory // threads <= MIB:
        raise InvalidConfig(
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
        )


def _check_compaction_lags(least: Value, most: Value) -> None:
    assert isinstance(least, int) and isinstance(most, int), "both have defaults"
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def unknown_option(what: str, name: str) -> str:
    """Return the message about an option that does not exist, with the most similar one."""
    from penstock_client.errors import nearest  # needed only for an error; a normal start is faster without it

    return f"{what}: {name}.{nearest(name, BROKER)}"


def base_name(name: str) -> str:
    """Return the name of an option without its prefix for a listener, or for a listener and a SASL mechanism."""
    parts = name.split(".", 3)
    if len(parts) < 4 or parts[:2] != ["listener", "name"]:
        return name
    mechanism, _, rest = parts[3].partition(".")
    return rest if mechanism in MECHANISM_PREFIXES else parts[3]


def option_of(name: str) -> Option | None:
    """Return a broker option by its name, with or without a listener prefix."""
    return BROKER.get(base_name(name))


def _chain(option: Option) -> list[Option]:
    return [option, *(BROKER[name] for name in option.fallbacks)]


def _shown(option: Option, value: Value) -> str | None:
    return None if option.sensitive else render(option, value)


def _parse_static(given: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, text in given.items():
        option = option_of(name)
        if option is None:
            if is_meaningless(name):
                continue
            if is_unsupported(base_name(name)):
                raise StartupError(f"Penstock does not support the Kafka option {name}; remove it to start the broker")
            raise StartupError(unknown_option("Unknown option", name))
        try:
            values[name] = parse(option, text, name=name)
        except InvalidConfig as problem:
            raise StartupError(problem.message) from None
    _join_ids(values)
    return values


def _join_ids(values: dict[str, Value]) -> None:
    """Give node.id and its old name, broker.id, the same value."""
    given = {values[name] for name in ("node.id", "broker.id") if name in values}
    if len(given) > 1:
        raise StartupError("node.id and broker.id are the same option but have different values; remove one of them")
    for value in given:
        values["node.id"] = values["broker.id"] = value


def _parse_dynamic(given: Mapping[str, str], ignored: list[str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, text in given.items():
        option = option_of(name)
        if option is None or not option.live:
            ignored.append(name)
            continue
        try:
            values[name] = parse(option, text, name=name)
        except InvalidConfig:
            ignored.append(name)
    return values


def _build_topic_settings(values: dict[str, Value]) -> TopicSettings:
    named: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    small_segments = named.pop("internal_segment_bytes")
    if small_segments is not None:
        named["segment_bytes"] = small_segments
    named["cleanup_policy"] = frozenset(named["cleanup_policy"])
    return TopicSettings(**named)


def default_topic_settings(**changes: Any) -> TopicSettings:
    """Return the settings of a topic when nothing is configured, with some fields changed."""
    unknown = changes.keys() - {field.name for field in fields(TopicSettings)}
    assert not unknown, f"no such settings: {unknown}"
    return replace(topic_settings(BrokerSettings()), **changes)
