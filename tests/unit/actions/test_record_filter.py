import pytest

from penstock.actions.errors import ActionError
from penstock.actions.record_filter import grep
from penstock.actions.record_format import LineRecord


@pytest.mark.parametrize(
    ("pattern", "key", "value", "expected"),
    [
        ("err", None, b"an error", True),
        ("^anna$", b"anna", b"x", True),
        ("(?i)ZÜRICH", None, "Zürich".encode(), True),
        ("x", None, None, False),
        ("x", b"a", b"b", False),
        ("x", None, b"\xff\xfex", True),
    ],
)
def test_a_record_matches_by_its_key_or_value(
    pattern: str, key: bytes | None, value: bytes | None, expected: bool
) -> None:
    assert grep(pattern)(LineRecord(key, value)) is expected


def test_an_invalid_expression_is_named() -> None:
    with pytest.raises(ActionError, match=r"Invalid regular expression '\(': missing \)"):
        grep("(")
