import pytest

from penstock.actions.errors import ActionError
from penstock.actions.format_string import FormatString
from penstock.actions.record_format import LineRecord

RECORD = LineRecord(b"k", b"value", [("a", b"1"), ("b", None)], 1_700_000_000_000, 2, 42, "orders")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"%t-%p:%o\n", b"orders-2:42\n"),
        (r"%k\t%s\n", b"k\tvalue\n"),
        ("%K %S %T", b"1 5 1700000000000"),
        ("%h", b"a=1,b=NULL"),
        ("%R%s", b"\x00\x00\x00\x05value"),
        (r"100%% \\ \x41\r\0", b"100% \\ A\r\0"),
        ("no directive", b"no directive"),
    ],
)
def test_a_record_is_rendered_as_kcat_does(text: str, expected: bytes) -> None:
    assert FormatString(text).render(RECORD, bytes) == expected


def test_nulls_are_empty_and_have_the_size_minus_one() -> None:
    assert FormatString("[%k][%s]%K %S %T %p").render(LineRecord(None, None), bytes) == b"[][]-1 -1 -1 -1"


@pytest.mark.parametrize("text", ["%", "%z", "\\", r"\q", r"\x4"])
def test_what_has_no_meaning_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match="Invalid format"):
        FormatString(text)


def test_only_the_fields_of_the_record_are_shielded() -> None:
    rendered = FormatString(r"\x1b[1m%k%s\n").render(RECORD, lambda data: b"<" + data + b">")
    assert rendered == b"\x1b[1m<k><value>\n"
