import pytest

from penstock.actions.addresses import parse_address, parse_addresses
from penstock.actions.errors import ActionError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("broker.example", ("broker.example", 9092)),
        ("[::1]:19092", ("::1", 19092)),
        ("::1", ("::1", 9092)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:0", "host:99999", "host:kafka"])
def test_an_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match=f"Invalid address '{text}': expected HOST:PORT"):
        parse_addresses(text)


def test_addresses_are_separated_by_commas() -> None:
    assert parse_addresses("a:1, b:2,") == [("a", 1), ("b", 2)]
