"""penstock consume: filters, format strings, groups, and output that is safe for a terminal."""

import os
import pty
import subprocess
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from penstock.sqlview import isolated
from penstock.testing import Broker
from tests.integration.conftest import Fill
from tests.support.command import COMMAND, penstock
from tests.support.eventually import eventually


@pytest.fixture(autouse=True, scope="module")
def no_query_process_is_left() -> Iterator[None]:
    yield
    isolated.close_idle()


def consumed(broker: Broker, *words: str) -> list[str]:
    outcome = penstock("consume", *words, "--bootstrap", broker.bootstrap)
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()


def refused(broker: Broker, *words: str) -> str:
    outcome = penstock("consume", *words, "--bootstrap", broker.bootstrap)
    assert (outcome.code, outcome.out) == (1, "")
    return outcome.err


def test_grep_selects_by_key_and_value_and_counts_what_it_prints(group_broker: Broker, fill: Fill) -> None:
    topic = fill([(f"k{number}", f"order {number}") for number in range(30)])
    assert consumed(group_broker, topic, "--grep", "order 1[0-2]") == ["order 10", "order 11", "order 12"]
    assert consumed(group_broker, topic, "--grep", "^k7$") == ["order 7"]
    assert consumed(group_broker, topic, "--grep", "order 2", "--count", "2") == ["order 2", "order 20"]
    assert "Invalid regular expression" in refused(group_broker, topic, "--grep", "(")


def test_where_selects_with_sql(group_broker: Broker, fill: Fill) -> None:
    cities = ["Bern", "Basel", "Bern"]
    topic = fill([(f"k{number}", f'{{"city": "{city}", "n": {number}}}') for number, city in enumerate(cities)])
    at = (topic, "-f", r"%o\n")
    assert consumed(group_broker, *at, "--where", "value->>'$.city' = 'Bern'") == ["0", "2"]
    assert consumed(group_broker, *at, "--where", "(value->>'$.n')::int > 0 AND key <> 'k2' -- a comment") == ["1"]
    assert consumed(group_broker, *at, "--where", "timestamp > now() - INTERVAL 1 HOUR AND partition = 0", "-n1") == [
        "0"
    ]
    assert consumed(group_broker, *at, "--where", "headers[1].key = 'n' AND timestamp_type = 0", "--grep", "Basel") == [
        "1"
    ]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "The condition is empty"),
        ("no_such_column = 1", "no_such_column"),
        ("true) UNION SELECT (1", "expected one SQL expression"),
        ("true); DROP VIEW records; SELECT (1", "Only one SELECT"),
        ("(SELECT count(*) FROM read_text('/etc/hostname')) > 0", "The query cannot be run"),
        ("value::int > 1", "Could not convert string 'word'"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_refused(
    group_broker: Broker, fill: Fill, condition: str, message: str
) -> None:
    assert message in refused(group_broker, fill([("k", "word")]), "--where", condition)


def test_a_format_string_prints_what_it_names(group_broker: Broker, fill: Fill) -> None:
    topic = fill([("k", "value"), (None, "x")])
    printed = consumed(group_broker, topic, "-f", r"%t/%p/%o/%k/%K/%s/%S/%h\n")
    assert printed == [f"{topic}/0/0/k/1/value/5/n=value", f"{topic}/0/1//-1/x/1/n=x"]
    assert "unknown directive '%q'" in refused(group_broker, topic, "-f", "%q")


def test_a_member_continues_where_its_group_stopped(group_broker: Broker, fill: Fill) -> None:
    topic = fill([("k", str(number)) for number in range(10)])
    member = (topic, "--group", f"{topic}-readers")
    assert consumed(group_broker, *member, "--count", "4") == ["0", "1", "2", "3"]
    # What a filter leaves out is read all the same.
    assert consumed(group_broker, *member, "--grep", "5", "--count", "1") == ["5"]
    assert consumed(group_broker, *member) == ["6", "7", "8", "9"]
    assert consumed(group_broker, *member) == []
    assert consumed(group_broker, topic, "--group", f"{topic}-late", "--from", "latest") == []
    assert "must be earliest or latest" in refused(group_broker, *member, "--from", "5m")
    assert "cannot be combined" in refused(group_broker, *member, "--partition", "0")


def test_a_member_without_partitions_says_who_has_them(group_broker: Broker, fill: Fill) -> None:
    topic = fill([("k", "v")])
    owner = Consumer({"bootstrap.servers": group_broker.bootstrap, "group.id": topic, "group.instance.id": "first"})
    owner.subscribe([topic])
    try:
        eventually(lambda: owner.poll(0.1) is None and bool(owner.assignment()), what="the assignment")
        command = [*COMMAND, "consume", topic, "--group", topic, "--bootstrap", group_broker.bootstrap]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def has_ended() -> bool:
            owner.poll(0.1)
            return process.poll() is not None

        eventually(has_ended, what="the end of the second member")
        out, err = process.communicate()
        assert (process.returncode, out) == (0, "") and "own all partitions" in err
    finally:
        owner.close()


def test_a_terminal_gets_no_control_sequence_of_a_record(group_broker: Broker, fill: Fill) -> None:
    topic = fill([("k", "\x1b]0;title\x07 text")])
    controller, terminal = pty.openpty()
    try:
        command = [*COMMAND, "consume", topic, "--bootstrap", group_broker.bootstrap]
        subprocess.run(command, stdout=terminal, timeout=60, check=True)
        shown = os.read(controller, 4096)
    finally:
        os.close(controller)
        os.close(terminal)
    assert shown == b"\\x1b]0;title\\x07 text\r\n"
    assert consumed(group_broker, topic) == ["\x1b]0;title\x07 text"]
