"""Changes of settings: their records and their errors."""

from uuid import UUID

import pytest

from penstock.config.settings import BrokerSettings
from penstock.controller.settings import (
    Change,
    Judge,
    Operation,
    ResourceChanges,
    Result,
    decide_alter,
    decide_first_settings,
    decide_incremental_alter,
)
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource, Image
from penstock.metadata.records import ConfigRecord, MetadataRecord, PartitionChangeRecord, TopicRecord
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import apply, broker, cluster, partition, with_partition

ORDERS = ConfigResource(TOPIC, "orders")
THIS_BROKER = ConfigResource(BROKER, "1")
ALL_BROKERS = ConfigResource(BROKER, "")
READERS = ConfigResource(GROUP, "readers")
METRICS = ConfigResource(CLIENT_METRICS, "m")

SET, DELETE, APPEND, SUBTRACT = Operation


def image_with(resource: ConfigResource = ORDERS, **configs: str) -> Image:
    records: list[MetadataRecord] = [TopicRecord(name="orders", topic_id=UUID(int=7))]
    records += [record(resource, name.replace("_", "."), value) for name, value in configs.items()]
    return apply(cluster(), records)


def record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def judge(image: Image | None = None, settings: BrokerSettings | None = None) -> Judge:
    return Judge(image or image_with(), settings or BrokerSettings(), NodeId(1))


def change(
    resource: ConfigResource, *changes: tuple[str, int, str | None], image: Image | None = None
) -> tuple[list[MetadataRecord], Result]:
    request = ResourceChanges(resource, tuple(Change(*fields) for fields in changes))
    decision = decide_incremental_alter(judge(image), [request], validate_only=False)
    (result,) = decision.reply
    return list(decision.records), result


def replace(resource: ConfigResource, *values: tuple[str, str | None], image: Image) -> list[MetadataRecord]:
    request = ResourceChanges(resource, tuple(Change(name, SET, value) for name, value in values))
    decision = decide_alter(judge(image), [request], validate_only=False)
    assert decision.reply == (Result(resource, 0, None),)
    return list(decision.records)


def test_a_value_that_is_set_becomes_a_record() -> None:
    assert change(ORDERS, ("retention.ms", SET, "1000")) == (
        [record(ORDERS, "retention.ms", "1000")],
        Result(ORDERS, 0, None),
    )


def test_an_unchanged_value_gives_no_record() -> None:
    assert change(ORDERS, ("retention.ms", SET, "5"), image=image_with(retention_ms="5")) == (
        [],
        Result(ORDERS, 0, None),
    )


def test_a_deleted_value_is_removed_once() -> None:
    records, _ = change(ORDERS, ("retention.ms", DELETE, None), image=image_with(retention_ms="5"))
    assert records == [record(ORDERS, "retention.ms", None)]
    assert change(ORDERS, ("retention.ms", DELETE, None), ("nope", DELETE, None)) == ([], Result(ORDERS, 0, None))


@pytest.mark.parametrize(
    ("present", "operation", "words", "after"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", None),
        (None, SUBTRACT, "delete", ""),
        ("compact", APPEND, "delete,compact", "compact,delete"),
        ("compact,delete", SUBTRACT, "compact", "delete"),
        ("compact", SUBTRACT, "delete", None),
        ("", APPEND, "compact", "compact"),
    ],
)
def test_append_and_subtract_start_from_the_effective_list(
    present: str | None, operation: int, words: str, after: str | None
) -> None:
    image = image_with() if present is None else image_with(cleanup_policy=present)
    records, result = change(ORDERS, ("cleanup.policy", operation, words), image=image)
    assert result.code == 0
    wanted = "delete" if present is None and after is None else after
    assert records == ([] if wanted is None else [record(ORDERS, "cleanup.policy", wanted)])


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ([("nope", SET, "1")], 40, "Unknown topic config name: nope"),
        (
            [("retention.ms", SET, "abc")],
            40,
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        ([("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        ([("cleanup.policy", APPEND, None)], 42, "Null value not supported for : cleanup.policy"),
        ([("retention.ms", APPEND, "1")], 40, "Can't APPEND to key retention.ms because its type is not LIST."),
        ([("retention.ms", SUBTRACT, "1")], 40, "Can't SUBTRACT to key retention.ms because its type is not LIST."),
        ([("nope", APPEND, "1")], 40, "Unknown config name: nope"),
        ([("retention.ms", 9, "1")], 42, "Unknown operation type 9"),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], 42, "Error due to duplicate config keys"),
        (
            [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
            40,
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_a_bad_change_of_a_topic_is_refused(
    changes: list[tuple[str, int, str | None]], code: int, message: str
) -> None:
    assert change(ORDERS, *changes) == ([], Result(ORDERS, code, message))


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        (ConfigResource(TOPIC, "nope"), 3, "The topic 'nope' does not exist."),
        (ConfigResource(TOPIC, ""), 42, "Default topic resources are not allowed."),
        (ConfigResource(GROUP, ""), 42, "Default group resources are not allowed."),
        (ConfigResource(CLIENT_METRICS, ""), 42, "Subscription name can't be empty"),
        (ConfigResource(BROKER, "7"), 42, "Unexpected broker id, expected 1, but received 7"),
        (ConfigResource(BROKER, "abc"), 42, "Node id must be an integer, but it is: abc"),
        (ConfigResource(BROKER, "1" * 5000), 42, f"Node id must be an integer, but it is: {'1' * 5000}"),
        (ConfigResource(BROKER_LOGGER, "1"), 42, "Unknown resource type 8"),
        (ConfigResource(1, "x"), 42, "Unknown resource type 1"),
    ],
)
def test_a_resource_that_cannot_be_set_is_refused(resource: ConfigResource, code: int, message: str) -> None:
    assert change(resource, ("retention.ms", SET, "1")) == ([], Result(resource, code, message))


def test_an_invalid_topic_name_and_an_unknown_one_give_different_errors() -> None:
    _, result = change(ConfigResource(TOPIC, "bad name!"), ("retention.ms", SET, "1"))
    assert result.code == 17


def test_a_refused_resource_does_not_affect_the_others() -> None:
    bad = ResourceChanges(ORDERS, (Change("retention.ms", SET, "abc"),))
    good = ResourceChanges(THIS_BROKER, (Change("log.preallocate", SET, "true"),))
    decision = decide_incremental_alter(judge(), [bad, good], validate_only=False)
    assert [result.code for result in decision.reply] == [40, 0]
    assert list(decision.records) == [record(THIS_BROKER, "log.preallocate", "true")]


def test_options_of_kerberos_are_kept_for_the_tools_that_set_them() -> None:
    request = ResourceChanges(THIS_BROKER, (Change("sasl.kerberos.min.time.before.relogin", SET, "58000"),))
    decision = decide_alter(judge(), [request], validate_only=False)
    assert list(decision.records) == [record(THIS_BROKER, "sasl.kerberos.min.time.before.relogin", "58000")]


def test_a_repeated_resource_is_refused_twice() -> None:
    twice = ResourceChanges(ORDERS, (Change("retention.ms", SET, "1"),))
    other = ResourceChanges(READERS, (Change("consumer.session.timeout.ms", SET, "50000"),))
    decision = decide_incremental_alter(judge(), [twice, twice, other], validate_only=False)
    message = "Each resource must appear at most once."
    assert decision.reply == (Result(ORDERS, 42, message), Result(ORDERS, 42, message), Result(READERS, 0, None))
    assert len(decision.records) == 1


def test_validate_only_reports_errors_and_changes_nothing() -> None:
    good = ResourceChanges(ORDERS, (Change("retention.ms", SET, "1"),))
    for decide in (decide_incremental_alter, decide_alter):
        assert decide(judge(), [good], validate_only=True).records == ()


@pytest.mark.parametrize(
    ("resource", "name", "value", "message"),
    [
        (THIS_BROKER, "num.partitions", "5", "Cannot update these configs dynamically: [num.partitions]"),
        (
            THIS_BROKER,
            "log.segment.bytes",
            "5",
            "Invalid value 5 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (THIS_BROKER, "log.roll.ms", "0", "log.roll.ms must be greater than or equal to 1"),
        (
            ALL_BROKERS,
            "cordoned.log.dirs",
            "/x",
            "Cannot update these configs at default cluster level, broker id must be specified: [cordoned.log.dirs]",
        ),
        (THIS_BROKER, "metric.reporters", "x", "metric.reporters is an option of Kafka that has no effect in Penstock"),
        (
            THIS_BROKER,
            "log.retention.mss",
            "5",
            "Unknown broker config name: log.retention.mss. Did you mean 'log.retention.ms'?",
        ),
    ],
)
def test_a_bad_change_of_a_broker_is_an_invalid_request(
    resource: ConfigResource, name: str, value: str, message: str
) -> None:
    _, result = change(resource, (name, SET, value))
    assert result.code == 42
    assert result.message is not None
    assert result.message.split(" (did")[0] == message.split(" (did")[0]


def test_a_brokers_settings_are_validated_together_with_cluster_wide_ones() -> None:
    image = image_with(ALL_BROKERS, log_cleaner_max_compaction_lag_ms="10")
    _, result = change(THIS_BROKER, ("log.cleaner.min.compaction.lag.ms", SET, "20"), image=image)
    assert result.code == 42
    assert change(THIS_BROKER, ("log.cleaner.min.compaction.lag.ms", SET, "5"), image=image)[1].code == 0


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        ("log.cleaner.dedupe.buffer.size", "1048576", "1048577"),
        ("log.cleaner.threads", "0", "1"),
        ("log.cleaner.io.max.bytes.per.second", "0", "1"),
        ("log.cleaner.io.buffer.load.factor", "0", "1"),
        ("log.cleaner.io.buffer.load.factor", "1.1", "0.1"),
    ],
)
def test_settings_that_would_stop_all_compaction_are_refused(name: str, bad: str, good: str) -> None:
    records, result = change(ALL_BROKERS, (name, SET, bad))
    assert result.code == 42
    assert name in (result.message or "")
    assert not records
    assert change(ALL_BROKERS, (name, SET, good))[1].code == 0


def test_append_to_a_brokers_list_starts_from_its_current_value() -> None:
    records, _ = change(THIS_BROKER, ("log.cleanup.policy", APPEND, "compact"))
    assert records == [record(THIS_BROKER, "log.cleanup.policy", "delete,compact")]


@pytest.mark.parametrize(
    ("name", "value", "code", "message"),
    [
        ("nope", "5", 40, "Unknown group config name: nope"),
        (
            "consumer.session.timeout.ms",
            "5",
            40,
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "99999",
            40,
            "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms",
        ),
    ],
)
def test_a_bad_change_of_a_group_is_refused(name: str, value: str, code: int, message: str) -> None:
    assert change(READERS, (name, SET, value)) == ([], Result(READERS, code, message))


def test_a_group_can_be_set_before_it_exists() -> None:
    records, _ = change(READERS, ("consumer.session.timeout.ms", SET, "50000"))
    assert records == [record(READERS, "consumer.session.timeout.ms", "50000")]


def test_a_subscription_is_checked_and_kept() -> None:
    assert change(METRICS, ("interval.ms", SET, "1000"))[1].code == 0
    assert change(METRICS, ("match", SET, "client_id=b.*"))[1].code == 0
    assert change(METRICS, ("match", SET, "foo=bar"))[1] == Result(
        METRICS, 40, "Illegal client matching pattern: foo=bar"
    )
    assert change(METRICS, ("nope", SET, "5"))[1] == Result(METRICS, 42, "Unknown client metrics configuration: nope")
    assert change(METRICS, ("interval.ms", SET, "5"))[1] == Result(
        METRICS, 42, "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)"
    )


def test_alter_configs_replaces_all_settings() -> None:
    image = image_with(retention_ms="5", flush_mode="os")
    assert replace(ORDERS, ("retention.ms", "6"), ("segment.ms", "7"), image=image) == [
        record(ORDERS, "flush.mode", None),
        record(ORDERS, "retention.ms", "6"),
        record(ORDERS, "segment.ms", "7"),
    ]
    assert replace(ORDERS, ("retention.ms", "5"), ("flush.mode", "os"), image=image) == []
    assert len(replace(ORDERS, image=image)) == 2


MIN_ISR = "min.insync.replicas"


def test_min_isr_is_set_cluster_wide_at_the_first_start() -> None:
    settings = BrokerSettings({MIN_ISR: "2"})
    first = decide_first_settings(image_with(), settings)
    assert first.records == [record(ALL_BROKERS, MIN_ISR, "2")]
    assert decide_first_settings(apply(image_with(), first.records), settings).records == []
    own = decide_first_settings(apply(image_with(), [*first.records, record(THIS_BROKER, MIN_ISR, "3")]), settings)
    assert own.records == [record(THIS_BROKER, MIN_ISR, None)]


def test_min_isr_cannot_be_set_for_a_broker_or_removed_from_the_cluster() -> None:
    image = apply(image_with(), [record(ALL_BROKERS, MIN_ISR, "2")])
    for resource, operation in ((THIS_BROKER, SET), (THIS_BROKER, DELETE), (ALL_BROKERS, DELETE)):
        records, result = change(resource, (MIN_ISR, operation, "1"), image=image)
        assert not records
        assert (result.code, "while ELR is enabled" in str(result.message)) == (40, True)
    assert change(ALL_BROKERS, (MIN_ISR, SET, "1"), image=image)[0] == [record(ALL_BROKERS, MIN_ISR, "1")]
    assert replace(ALL_BROKERS, image=image) == []


def test_changed_settings_include_the_resulting_partition_changes() -> None:
    image = with_partition(cluster(broker(1), broker(2)), leader=1, replicas=(1, 2), isr=(1,), elr=(2,))
    image = apply(image, [record(ALL_BROKERS, MIN_ISR, "2")])
    records, _ = change(ConfigResource(TOPIC, "t"), (MIN_ISR, SET, "1"), image=image)
    assert [type(each) for each in records] == [ConfigRecord, PartitionChangeRecord]
    assert partition(apply(image, records)).eligible_leader_replicas == ()


def test_the_secret_for_unknown_users_is_neither_changed_nor_replaced() -> None:
    name = "sasl.scram.unknown.users.secret"
    image = apply(image_with(), [record(ALL_BROKERS, name, "secret"), record(ALL_BROKERS, "max.connections", "7")])
    for operation, value in ((SET, "known"), (DELETE, None)):
        records, result = change(ALL_BROKERS, (name, operation, value), image=image)
        assert (records, result.code) == ([], 42)
    assert replace(ALL_BROKERS, image=image) == [record(ALL_BROKERS, "max.connections", None)]
