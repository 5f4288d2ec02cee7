"""Tests of parsing and rendering option values; bad values are rejected with Kafka's messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config.option import Kind, Option, Value, declare, parse, render
from penstock.config.topic import TOPIC
from penstock.model.errors import InvalidConfig


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", " 77 ", 77),
        ("int", "+5", 5),
        ("int", "-2147483648", -(2**31)),
        ("long", "9223372036854775807", 2**63 - 1),
        ("boolean", "TRUE", True),
        ("boolean", " false", False),
        ("double", "0.5", 0.5),
        ("double", "1e3", 1000.0),
        ("list", "", ()),
        ("list", "compact , delete", ("compact", "delete")),
        ("string", " lz4 ", "lz4"),
        ("password", " secret ", " secret "),
    ],
)
def test_a_text_is_read_as_kafka_reads_it(kind: Kind, text: str, value: Value) -> None:
    assert parse(declare(kind, "an.option", None, ""), text) == value


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("int", "abc", "Not a number of type INT"),
        ("int", "", "Not a number of type INT"),
        ("int", "1_000", "Not a number of type INT"),
        ("int", "٣", "Not a number of type INT"),
        ("int", "99999999999", "Not a number of type INT"),
        ("short", "32768", "Not a number of type SHORT"),
        ("long", "9223372036854775808", "Not a number of type LONG"),
        ("long", "9" * 5000, "Not a number of type LONG"),
        ("double", "x", "Not a number of type DOUBLE"),
        ("double", "1e400", "Not a number of type DOUBLE"),
        ("boolean", "yes", "Expected value to be either true or false"),
    ],
)
def test_a_text_that_is_not_a_value_is_rejected(kind: Kind, text: str, why: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse(declare(kind, "an.option", None, ""), text)
    assert refused.value.message == f"Invalid value {text} for configuration an.option: {why}"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "compression.type",
            "foo",
            "Invalid value foo for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "cleanup.policy",
            "compact,foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "leader.replication.throttled.replicas",
            "1:x",
            "Invalid value [1:x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following "
            "format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_values_out_of_range_are_rejected_with_kafkas_messages(name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse(TOPIC[name], text, name=name)
    assert refused.value.message == message


def test_a_topic_option_has_limits_that_the_broker_option_has_not() -> None:
    option = TOPIC["retention.ms"]
    assert parse(option, "-7") == -7
    with pytest.raises(InvalidConfig):
        parse(option, "-7", name="retention.ms")


def test_duplicates_in_a_list_are_removed() -> None:
    assert parse(TOPIC["cleanup.policy"], "compact,compact", name="cleanup.policy") == ("compact",)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e-5, "1.0E-5"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    option = declare("double", "an.option", None, "")
    assert render(option, value) == text
    assert parse(option, text) == value


_kinds = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "list": st.lists(st.text("abc", min_size=1), unique=True).map(tuple),
}


@given(st.sampled_from(sorted(_kinds)).flatmap(lambda kind: st.tuples(st.just(kind), _kinds[kind])))
def test_a_rendered_value_is_parsed_back(kind_and_value: tuple[Kind, Value]) -> None:
    kind, value = kind_and_value
    option = Option(name="an.option", kind=kind, default=None, doc="")
    text = render(option, value)
    assert text is not None
    assert parse(option, text) == value
