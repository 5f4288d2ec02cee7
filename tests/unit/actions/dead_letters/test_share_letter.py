from penstock.actions.dead_letters.dead_letter import Filter, dead_letter_row, parse_dead_letter
from penstock.actions.dead_letters.share_letter import is_pointer
from penstock.actions.record_format import LineRecord

HEADERS = [
    ("own", b"1"),
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"2"),
    ("__dlq.errors.offset", b"41"),
    ("__dlq.errors.group", b"billing"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"The delivery count limit was reached."),
]


def test_a_letter_of_a_share_group_has_its_source_and_its_own_headers() -> None:
    record, death = parse_dead_letter(LineRecord(b"k", b"v", HEADERS, 9_000, 0, 4, "dlq.orders"))
    assert death is not None
    assert (death.topic, death.partition, death.offset, death.group, death.attempts) == ("orders", 2, 41, "billing", 5)
    assert list(record.headers) == [("own", b"1")]
    assert not is_pointer(record, death)
    row = dead_letter_row(parse_dead_letter(LineRecord(b"k", b"v", HEADERS, 9_000, 0, 4, "dlq.orders")))
    assert (row["source"], row["message"]) == ("orders-2@41", "The delivery count limit was reached.")


def test_a_letter_without_content_points_to_its_source() -> None:
    record, death = parse_dead_letter(LineRecord(None, None, HEADERS[1:], 9_000, 0, 4, "dlq.orders"))
    assert death is not None and is_pointer(record, death)


def test_other_headers_are_no_letter() -> None:
    damaged = [("__dlq.errors.topic", b"orders"), ("__dlq.errors.offset", b"x")]
    assert parse_dead_letter(LineRecord(None, b"v", damaged, 9, 0, 4, "dlq.orders")).death is None


def test_a_filter_by_group() -> None:
    letter = parse_dead_letter(LineRecord(None, None, HEADERS, 9_000, 0, 4, "dlq.orders"))
    assert Filter(group="billing").matches(letter)
    assert not Filter(group="shipping").matches(letter)
