"""Tests of the described value, source and synonyms of each option."""

from penstock.config.describe import (
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from penstock.config.settings import BrokerSettings, Source, Synonym


def only(described: list[Described]) -> Described:
    (option,) = described
    return option


def test_a_topics_own_value_comes_before_the_brokers() -> None:
    settings = BrokerSettings().with_dynamic(cluster={"log.retention.ms": "7000"}, node={"log.retention.ms": "5000"})
    option = only(describe_topic(settings, {"retention.ms": " 77 "}, ("retention.ms",)))
    assert (option.value, option.source, option.kind_code, option.read_only) == ("77", Source.DYNAMIC_TOPIC, 5, False)
    assert option.synonyms == [
        Synonym("retention.ms", "77", Source.DYNAMIC_TOPIC),
        Synonym("log.retention.ms", "5000", Source.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "7000", Source.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    ]


def test_a_topic_that_sets_nothing_has_the_brokers_value_and_source() -> None:
    option = only(describe_topic(BrokerSettings({"log.segment.bytes": "1048576"}), {}, ["segment.bytes"]))
    assert (option.value, option.source) == ("1048576", Source.STATIC_BROKER)
    assert [synonym.name for synonym in option.synonyms] == ["log.segment.bytes", "log.segment.bytes"]


def test_all_options_are_described_when_none_is_named() -> None:
    assert len(describe_topic(BrokerSettings(), {}, None)) == 34
    assert describe_topic(BrokerSettings(), {}, ()) == describe_topic(BrokerSettings(), {}, None)
    assert [option.name for option in describe_topic(BrokerSettings(), {}, ("zzz", "flush.mode"))] == ["flush.mode"]


def test_an_internal_option_is_described_only_if_it_is_set() -> None:
    assert describe_topic(BrokerSettings(), {}, ["internal.segment.bytes"]) == []
    assert (
        only(describe_topic(BrokerSettings(), {"internal.segment.bytes": "9"}, ["internal.segment.bytes"])).value == "9"
    )


def test_a_broker_option_that_needs_a_restart_is_read_only() -> None:
    settings = BrokerSettings({"num.partitions": "4"})
    assert only(describe_broker(settings, ["num.partitions"]))[1:4] == ("4", True, Source.STATIC_BROKER)
    assert only(describe_broker(settings, ["log.retention.bytes"]))[1:4] == ("-1", False, Source.DEFAULT)
    assert only(describe_broker(settings, ["log.retention.ms"]))[1:4] == (None, False, Source.DEFAULT)


def test_only_options_that_were_set_are_described_for_all_brokers() -> None:
    option = only(describe_all_brokers({"log.retention.ms": "7000", "nobody.knows": "1"}))
    assert (option.name, option.value, option.source) == ("log.retention.ms", "7000", Source.DYNAMIC_DEFAULT_BROKER)
    assert option.synonyms == [Synonym("log.retention.ms", "7000", Source.DYNAMIC_DEFAULT_BROKER)]


def test_a_group_follows_the_broker() -> None:
    option = only(describe_group(BrokerSettings(), {}, ["consumer.session.timeout.ms"]))
    assert (option.value, option.source) == ("45000", Source.DEFAULT)
    assert option.synonyms == [Synonym("group.consumer.session.timeout.ms", "45000", Source.DEFAULT)]
    changed = only(
        describe_group(BrokerSettings(), {"share.isolation.level": "read_committed"}, ["share.isolation.level"])
    )
    assert changed.synonyms == [
        Synonym("share.isolation.level", "read_committed", Source.GROUP),
        Synonym("share.isolation.level", "read_uncommitted", Source.DEFAULT),
    ]
    assert len(describe_group(BrokerSettings(), {})) == 23


def test_a_subscription_has_three_options() -> None:
    described = describe_client_metrics({"metrics": "a,b"})
    assert [(option.name, option.value, option.source) for option in described] == [
        ("interval.ms", "300000", Source.DEFAULT),
        ("match", "", Source.DEFAULT),
        ("metrics", "a,b", Source.CLIENT_METRICS),
    ]
