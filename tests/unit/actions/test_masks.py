import pytest

from penstock.actions.errors import ActionError
from penstock.actions.masks import Mask, find_mask, parse_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("$.card", ("card",)),
        ("$.customer.name", ("customer", "name")),
        ("$.items[*].card", ("items", "*", "card")),
        ("$.items[0]", ("items", 0)),
        ('$."a b"', ("a b",)),
        ("$.*.card", ("*", "card")),
    ],
)
def test_paths_are_parsed(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize("text", ["", "card", "$", "$.", "$.a b", "$[x]", "$.a."])
def test_an_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match="Invalid path"):
        parse_path(text)


def test_a_masked_field_is_hidden() -> None:
    assert Mask(["$.card"]).hide(b'{"id": 9223372036854775807, "card": "4111"}') == (
        b'{"id": 9223372036854775807, "card": "***"}'
    )


@pytest.mark.parametrize("value", [b"card=4111", b"\xff\x00", b'{"card": "4111"', b""])
def test_a_value_whose_fields_cannot_be_found_is_hidden_as_a_whole(value: bytes) -> None:
    assert Mask(["$.card"]).hide(value) == b"***"


def test_null_stays_null() -> None:
    assert Mask(["$.card"]).hide(None) is None


def test_the_mask_of_a_topic_applies_to_its_dead_letters() -> None:
    masks = {"orders": ("$.card",)}
    assert find_mask(masks, "other") is None
    for topic in ("orders", "orders.dlq"):
        mask = find_mask(masks, topic)
        assert mask is not None and mask.hide(b'{"card": 1}') == b'{"card": "***"}'
