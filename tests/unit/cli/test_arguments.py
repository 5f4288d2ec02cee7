import pytest

from penstock.cli.arguments import parse_list, parse_pairs
from penstock.cli.errors import CommandError


def test_pairs_keep_what_follows_the_first_equals_sign() -> None:
    assert parse_pairs(["a=b=c", "d="], example="--set a=b") == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("text", ["a", "=b", ""])
def test_an_invalid_pair_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(CommandError, match=f"Invalid argument '{text}': expected NAME=VALUE, for example --set a=b"):
        parse_pairs([text], example="--set a=b")


def test_a_list_is_separated_by_commas() -> None:
    assert parse_list(" a, b,,") == ["a", "b"]
