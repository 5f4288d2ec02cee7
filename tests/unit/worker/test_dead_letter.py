from dataclasses import replace

from penstock.worker import Record, dead_letter
from penstock.worker.dead_letter import MESSAGE_SIZE_MAX, TRACE_SIZE_MAX, Death
from penstock.worker.record import Headers

RECORD = Record(
    topic="orders", partition=2, offset=41, key=b"k", value=b"v", timestamp_ms=7, headers=[("trace", b"1"), ("x", None)]
)


def death_of(record: Record, error: Exception) -> Death:
    try:
        raise error
    except Exception as raised:
        return dead_letter.describe(
            record, raised, attempts=3, first_failure_ms=100, last_failure_ms=250, group="billing"
        )


def headers_of(record: Record, error: Exception) -> Headers:
    written = dead_letter.write(record.headers, death_of(record, error))
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in written]


def test_failure_headers_follow_the_records_own() -> None:
    headers = headers_of(RECORD, ValueError("no price"))
    assert headers[:2] == [("trace", b"1"), ("x", None)]
    found = dict(headers[2:])
    assert found["penstock.dlq.source.topic"] == b"orders"
    assert found["penstock.dlq.source.partition"] == b"2"
    assert found["penstock.dlq.source.offset"] == b"41"
    assert found["penstock.dlq.source.timestamp"] == b"7"
    assert found["penstock.dlq.error.class"] == b"ValueError"
    assert found["penstock.dlq.error.message"] == b"no price"
    assert found["penstock.dlq.attempts"] == b"3"
    assert found["penstock.dlq.first.failure"] == b"100"
    assert found["penstock.dlq.last.failure"] == b"250"
    assert found["penstock.dlq.group"] == b"billing"
    assert b"raise error" in (found["penstock.dlq.error.trace"] or b"")


def test_a_written_dead_letter_is_read_back() -> None:
    own, death = dead_letter.read(headers_of(RECORD, ValueError("no price"))) or ((), None)
    assert list(own) == list(RECORD.headers)
    assert death == death_of(RECORD, ValueError("no price"))


def test_a_letter_that_failed_twice_loses_only_its_last_failure() -> None:
    once = headers_of(RECORD, ValueError("first"))
    letter = replace(RECORD, topic="orders.dlq", partition=0, offset=0, headers=once)
    own, death = dead_letter.read(headers_of(letter, KeyError("second"))) or ((), None)
    assert death is not None
    assert (death.topic, death.error_class) == ("orders.dlq", "KeyError")
    assert list(own) == list(once)


def test_headers_appended_by_other_tools_stay_with_the_record() -> None:
    own, _ = dead_letter.read([*headers_of(RECORD, ValueError("x")), ("hop", b"2")]) or ((), None)
    assert list(own) == [*RECORD.headers, ("hop", b"2")]


def test_other_records_are_not_dead_letters() -> None:
    assert dead_letter.read([]) is None
    assert dead_letter.read([("penstock.dlq.source.topic", b"orders")]) is None


def test_long_messages_lose_their_end_and_long_traces_their_beginning() -> None:
    death = death_of(RECORD, ValueError("ä" * 10_000 + "end"))
    assert len(death.error_message.encode()) <= MESSAGE_SIZE_MAX + 3
    assert len(death.trace.encode()) <= TRACE_SIZE_MAX + 3
    assert death.trace.rstrip().endswith("end")


def test_an_error_class_is_named_with_its_module() -> None:
    import json

    try:
        json.loads("{")
    except ValueError as error:
        death = dead_letter.describe(RECORD, error, attempts=1, first_failure_ms=1, last_failure_ms=1, group="g")
    assert death.error_class == "json.decoder.JSONDecodeError"


def test_invalid_utf8_does_not_prevent_a_dead_letter() -> None:
    assert headers_of(RECORD, ValueError("\udcff"))


def test_an_error_without_a_message_does_not_prevent_a_dead_letter() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    death = death_of(RECORD, Mute())
    assert "Mute" in death.error_class and "RuntimeError" in death.error_message and "Mute" in death.trace
