"""Tests of the layers of settings: the effective value, its source, and the values that prevent a start."""

import pytest

from penstock.config.settings import (
    BrokerSettings,
    Source,
    Synonym,
    default_topic_settings,
    resolve_topic,
    topic_settings,
)
from penstock.model.errors import InvalidConfig, StartupError


def test_the_command_line_wins_over_the_file_and_the_file_over_the_default() -> None:
    settings = BrokerSettings.load(
        file={"num.partitions": "3", "log.segment.bytes": "2097152"}, overrides={"num.partitions": "6"}
    )
    assert settings["num.partitions"] == 6
    assert settings["log.segment.bytes"] == 2 * 1024 * 1024
    assert settings["default.replication.factor"] == 1
    assert settings.source("num.partitions") is Source.STATIC_BROKER
    assert settings.source("default.replication.factor") is Source.DEFAULT


def test_a_value_for_one_broker_wins_over_a_value_for_all_brokers() -> None:
    start = BrokerSettings.load(file={"log.retention.ms": "1"})
    settings = start.with_dynamic(
        cluster={"log.retention.ms": "2", "log.preallocate": "true"}, node={"log.retention.ms": "3"}
    )
    assert settings["log.retention.ms"] == 3
    assert settings["log.preallocate"] is True
    assert settings.synonyms("log.retention.ms") == [
        Synonym("log.retention.ms", "3", Source.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "2", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.ms", "1", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    ]
    assert start["log.retention.ms"] == 1
    assert settings.with_dynamic(cluster={}, node={})["log.retention.ms"] == 1


def test_fallback_options_are_listed_only_after_the_options_own_value() -> None:
    assert BrokerSettings().synonyms("log.retention.ms") == []
    assert BrokerSettings({"log.retention.hours": "1"}).synonyms("log.retention.ms") == []


def test_a_typed_getter_rejects_the_wrong_type() -> None:
    settings = BrokerSettings()
    assert settings.integer("num.partitions") == 1
    assert settings.flag("auto.create.topics.enable") is True
    assert settings.text("flush.mode") == "fsync"
    assert settings.words("listeners") == ("PLAINTEXT://:9092",)
    with pytest.raises(AssertionError):
        settings.text("num.partitions")


def test_an_unknown_name_is_rejected_with_the_closest_known_one() -> None:
    with pytest.raises(StartupError, match=r"Unknown option: num\.partition\. Did you mean 'num\.partitions'\?$"):
        BrokerSettings.load(overrides={"num.partition": "3"})


def test_a_bad_value_is_rejected_at_the_start() -> None:
    with pytest.raises(
        StartupError, match=r"Invalid value 0 for configuration num\.partitions: Value must be at least 1"
    ):
        BrokerSettings.load(file={"num.partitions": "0"})
    with pytest.raises(StartupError, match=r"conflict topic config setting min\.compaction\.lag\.ms \(5\) >"):
        BrokerSettings.load(file={"log.cleaner.min.compaction.lag.ms": "5", "log.cleaner.max.compaction.lag.ms": "4"})


def test_kafka_options_that_do_not_apply_are_ignored_and_reported() -> None:
    settings = BrokerSettings.load(
        file={"metric.reporters": "x", "remote.log.reader.threads": "2", "num.partitions": "2"}
    )
    assert settings.ignored == ("metric.reporters", "remote.log.reader.threads")
    assert "metric.reporters" not in settings
    assert settings.with_dynamic(cluster={}, node={}).ignored == settings.ignored


def test_options_without_effect_are_reported_as_ignored() -> None:
    settings = BrokerSettings.load(file={"log.preallocate": "true", "num.io.threads": "4", "num.partitions": "2"})
    assert settings.ignored == ("log.preallocate", "num.io.threads")
    assert settings["num.io.threads"] == 4
    assert settings.with_dynamic(cluster={}, node={}).ignored == settings.ignored


@pytest.mark.parametrize("mapped", ["OUTSIDE:PLAINTEXT,INSIDE:SSL", "", "INSIDE:SSL"])
def test_a_listener_of_any_name_uses_plaintext_unless_the_map_says_otherwise(mapped: str) -> None:
    given = {"listeners": "OUTSIDE://:9093", "listener.security.protocol.map": mapped}
    assert BrokerSettings.load(file=given).words("listeners") == ("OUTSIDE://:9093",)


@pytest.mark.parametrize("name", ["ssl.provider", "listener.name.x.ssl.cipher.suites", "principal.builder.class"])
def test_security_options_that_are_not_supported_are_rejected(name: str) -> None:
    with pytest.raises(StartupError, match="Penstock does not support"):
        BrokerSettings.load(file={name: "x"})


def test_dynamic_values_that_are_invalid_are_ignored() -> None:
    settings = BrokerSettings().with_dynamic(
        cluster={"log.retention.bytes": "abc", "num.partitions": "5", "nobody.knows": "1", "log.preallocate": "true"},
        node={},
    )
    assert settings.ignored == ("log.retention.bytes", "nobody.knows", "num.partitions")
    assert settings["log.retention.bytes"] == -1
    assert settings["log.preallocate"] is True


def test_a_topic_follows_the_broker_until_it_sets_the_option() -> None:
    broker = BrokerSettings({"log.retention.bytes": "5", "log.segment.bytes": "2097152"})
    topic = topic_settings(broker, {"retention.bytes": "7", "cleanup.policy": "compact,delete"})
    assert (topic.retention_bytes, topic.segment_bytes) == (7, 2097152)
    assert topic.compact and topic.delete


@pytest.mark.parametrize(
    ("static", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_can_be_written_in_three_units(static: dict[str, str], retention_ms: int) -> None:
    assert topic_settings(BrokerSettings(static)).retention_ms == retention_ms


def test_rolling_and_flushing_have_fallback_options_too() -> None:
    broker = BrokerSettings(
        {"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9"}
    )
    topic = topic_settings(broker)
    assert (topic.segment_ms, topic.segment_jitter_ms, topic.flush_ms) == (7_200_000, 3_600_000, 9)


def test_topics_with_equal_overrides_share_their_settings() -> None:
    broker = BrokerSettings()
    assert topic_settings(broker, {"retention.ms": "5", "flush.mode": "os"}) is topic_settings(
        broker, {"flush.mode": "os", "retention.ms": "5"}
    )


def test_a_topic_with_a_new_broker_default_gets_new_settings() -> None:
    broker = BrokerSettings()
    assert topic_settings(broker).flush_mode == "fsync"
    assert topic_settings(broker.with_dynamic(cluster={"flush.mode": "os"}, node={})).flush_mode == "os"


def test_tests_can_set_small_segments() -> None:
    assert topic_settings(BrokerSettings(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000
    assert default_topic_settings(segment_bytes=1000, flush_mode="os").segment_bytes == 1000


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1"}, "Unknown topic config name: nope"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_a_topics_options_are_checked_together(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        resolve_topic(BrokerSettings(), overrides)
    assert refused.value.message == message


def test_the_old_name_of_the_node_id_still_works() -> None:
    assert BrokerSettings({"broker.id": "5"})["node.id"] == 5
    assert BrokerSettings({"node.id": "5"})["broker.id"] == 5
    with pytest.raises(StartupError, match="are the same option"):
        BrokerSettings({"node.id": "5", "broker.id": "6"})


@pytest.mark.parametrize(
    ("hosts", "replicas", "in_sync"),
    [(["a"], 1, 1), (["a", "b"], 1, 1), (["a", "b", "c"], 3, 2), (["a", "A", "a"], 3, 2), (["a", "a", "b"], 2, 1)],
)
def test_default_replicas_follow_the_hosts_of_the_controllers(hosts: list[str], replicas: int, in_sync: int) -> None:
    addresses = [f"{host}:{9092 + index}" for index, host in enumerate(hosts)]
    voters = ",".join(f"{index}@{address}" for index, address in enumerate(addresses, 1))
    for given in (
        {"controller.quorum.voters": voters},
        {"controller.quorum.bootstrap.servers": ",".join(addresses)},
    ):
        settings = BrokerSettings(given)
        assert settings.integer("default.replication.factor") == replicas
        assert settings.integer("offsets.topic.replication.factor") == replicas
        assert settings.integer("min.insync.replicas") == in_sync


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("listeners", "nonsense", "Each listener must have the form NAME://host:port"),
        ("listeners", "A://:1,a://:2", "Each listener must have a different name"),
        ("metrics.listener", "https://:9100", "It must have the form http://host:port or unix:/path"),
        ("max.connections.per.ip.overrides", "10.0.0.1", "Each entry must have the form host:count"),
        ("max.connections.per.ip.overrides", "10.0.0.1:many", "Each entry must have the form host:count"),
        ("super.users", "admin", "Each entry must have the form User:name"),
        ("sasl.enabled.mechanisms", "GSSAPI", "Penstock does not support Kerberos. Use one of: PLAIN"),
        ("sasl.mechanism.inter.broker.protocol", "OAUTHBEARER", "Nodes of a cluster can use one of: PLAIN"),
        ("group.consumer.migration.policy", "sideways", "String must be one of .case insensitive.: DISABLED"),
        ("log.retention.ms", "0", "log.retention.ms must be unlimited"),
        ("log.retention.hours", "0", "log.retention.hours must be unlimited"),
        ("log.roll.ms", "0", "log.roll.ms must be greater than or equal to 1"),
        ("ssl.enabled.protocols", "", "must not be empty. Valid values include"),
        ("ssl.enabled.protocols", "TLSv1.2,", "values must not be empty"),
    ],
)
def test_a_value_that_the_broker_cannot_use_is_rejected_with_the_reason(name: str, text: str, why: str) -> None:
    with pytest.raises(StartupError, match=why):
        BrokerSettings.load(file={name: text})


def test_the_source_of_a_value_is_the_narrowest_one_that_sets_it() -> None:
    static = BrokerSettings({"log.segment.bytes": "2000000", "log.retention.bytes": "5"})
    settings = static.with_dynamic(
        cluster={"log.segment.bytes": "3000000", "log.retention.bytes": "6"}, node={"log.segment.bytes": "4000000"}
    )
    names = ("log.segment.bytes", "log.retention.bytes", "log.roll.hours")
    assert [settings.source(name) for name in names] == [
        Source.DYNAMIC_BROKER,
        Source.DYNAMIC_DEFAULT_BROKER,
        Source.DEFAULT,
    ]
    assert static.source("log.segment.bytes") == Source.STATIC_BROKER


def test_very_many_different_topics_do_not_fill_the_memory() -> None:
    broker = BrokerSettings()
    first = topic_settings(broker, {"retention.ms": "1"})
    assert topic_settings(broker, {"retention.ms": "1"}) is first
    for number in range(2, 1100):
        topic_settings(broker, {"retention.ms": str(number)})
    assert topic_settings(broker, {"retention.ms": "1"}) == first
    assert topic_settings(broker, {"retention.ms": "1"}) is not first
