"""Checks of the declarations: they are consistent, and every default passes its own checks."""

import pytest

from penstock.config.broker import BROKER
from penstock.config.foreign import MEANINGLESS, UNSUPPORTED, is_meaningless, is_unsupported
from penstock.config.group import CLIENT_METRICS, GROUP, check_group
from penstock.config.option import Option, parse, render
from penstock.config.settings import BrokerSettings
from penstock.config.topic import TOPIC
from penstock.model.errors import InvalidConfig

# The topic options of Apache Kafka 4.3.1 with their types and defaults.
KAFKA_TOPIC_OPTIONS = """
cleanup.policy list delete
compression.gzip.level int -1
compression.lz4.level int 9
compression.type string producer
compression.zstd.level int 3
delete.retention.ms long 86400000
file.delete.delay.ms long 60000
flush.messages long 9223372036854775807
flush.ms long 9223372036854775807
follower.replication.throttled.replicas list
index.interval.bytes int 4096
leader.replication.throttled.replicas list
local.retention.bytes long -2
local.retention.ms long -2
max.compaction.lag.ms long 9223372036854775807
max.message.bytes int 1048588
message.timestamp.after.max.ms long 3600000
message.timestamp.before.max.ms long 9223372036854775807
message.timestamp.type string CreateTime
min.cleanable.dirty.ratio double 0.5
min.compaction.lag.ms long 0
min.insync.replicas int 1
preallocate boolean false
remote.log.copy.disable boolean false
remote.log.delete.on.disable boolean false
remote.storage.enable boolean false
retention.bytes long -1
retention.ms long 604800000
segment.bytes int 1073741824
segment.index.bytes int 10485760
segment.jitter.ms long 0
segment.ms long 604800000
unclean.leader.election.enable boolean false
"""


def test_topics_have_all_options_of_kafka_and_flush_mode() -> None:
    settings = BrokerSettings()
    ours = {
        f"{name} {option.kind} {render(option, settings.topic_default(option))}".strip()
        for name, option in TOPIC.items()
        if not option.internal
    }
    assert ours - set(KAFKA_TOPIC_OPTIONS.strip().splitlines()) == {"flush.mode string fsync"}
    assert set(KAFKA_TOPIC_OPTIONS.strip().splitlines()) <= ours


@pytest.mark.parametrize("table", [BROKER, TOPIC, GROUP, CLIENT_METRICS])
def test_every_default_is_a_valid_value(table: dict[str, Option]) -> None:
    for option in table.values():
        if option.default is not None:
            text = render(option, option.default)
            assert text is not None
            assert parse(option, text) == option.default, option.name


@pytest.mark.parametrize("table", [BROKER, TOPIC, GROUP, CLIENT_METRICS])
def test_every_option_has_a_doc_that_is_a_sentence(table: dict[str, Option]) -> None:
    for option in table.values():
        assert option.doc.endswith("."), option.name
        assert "|" not in option.doc, "the reference page is a table"


def test_every_fallback_is_declared() -> None:
    for option in [*BROKER.values(), *GROUP.values()]:
        assert all(name in BROKER for name in option.fallbacks), option.name


def test_foreign_options_are_not_declared() -> None:
    assert not (MEANINGLESS | UNSUPPORTED) & BROKER.keys()
    assert not [name for name in BROKER if is_meaningless(name) or is_unsupported(name)]


def test_a_groups_value_must_be_within_the_brokers_limits() -> None:
    values = {name: option.default for name, option in GROUP.items()}
    check_group(values, BrokerSettings())
    with pytest.raises(InvalidConfig, match=r"less than or equal to group\.streams\.max\.standby\.replicas"):
        check_group({**values, "streams.num.standby.replicas": 3}, BrokerSettings())
    with pytest.raises(InvalidConfig, match=r"greater than or equal to group\.share\.min\.delivery\.count\.limit"):
        check_group({**values, "share.delivery.count.limit": 1}, BrokerSettings())


@pytest.mark.parametrize("text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2.5S"])
def test_a_share_group_may_start_at_either_end_or_at_a_duration(text: str) -> None:
    assert parse(GROUP["share.auto.offset.reset"], text) == text


@pytest.mark.parametrize("text", ["foo", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h"])
def test_other_start_positions_of_a_share_group_are_rejected(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse(GROUP["share.auto.offset.reset"], text)


@pytest.mark.parametrize("text", ["PLAINTEXT://:9092", "A://localhost:0,B://[::1]:9093", "A://10.0.0.1:1"])
def test_listeners_have_a_name_a_host_and_a_port(text: str) -> None:
    assert parse(BROKER["listeners"], text)


@pytest.mark.parametrize("text", ["localhost:9092", "A://x", "A://:1,a://:2", "A://::1:9092"])
def test_other_listeners_are_rejected(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse(BROKER["listeners"], text)
