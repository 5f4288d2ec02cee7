"""The first users of a cluster survive being written to a file; a broken entry is rejected without showing it."""

import pytest

from penstock.model.errors import InvalidConfig
from penstock.security.bootstrap import make_first_users, parse_first_users, render_first_users
from penstock.security.scram import SALT_SIZE

SALTS = [bytes([7]) * SALT_SIZE, bytes([9]) * SALT_SIZE]
ENTRY = "SCRAM-SHA-256=[name=admin,iterations=4096,salt=AAAA,stored_key=AAAA,server_key=AAAA]"


def test_first_users_are_parsed_as_they_were_rendered() -> None:
    users = make_first_users("admin", "secret", SALTS)
    text = render_first_users(users)
    assert parse_first_users(text) == users
    assert [user.mechanism for user in users] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert "secret" not in text


@pytest.mark.parametrize("text", ("", "  "))
def test_a_cluster_may_start_without_users(text: str) -> None:
    assert parse_first_users(text) == []


def test_entries_are_separated_by_commas_and_spaces() -> None:
    assert [user.name for user in parse_first_users(f"{ENTRY}, {ENTRY.replace('admin', 'bob')}")] == ["admin", "bob"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SCRAM-SHA-1=[name=admin]", "cannot be parsed"),
        (ENTRY.removesuffix("]"), "cannot be parsed"),
        (f"{ENTRY}; {ENTRY}", "cannot be parsed"),
        (ENTRY.replace("salt=AAAA,", ""), "an entry is incomplete or malformed"),
        (ENTRY.replace("salt=AAAA", "salt=A*"), "an entry is incomplete or malformed"),
        (ENTRY.replace("4096", "many"), "an entry is incomplete or malformed"),
        (ENTRY.replace("name=admin,", ""), "an entry is incomplete or malformed"),
    ],
)
def test_a_broken_entry_is_rejected_without_its_values(text: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=why) as raised:
        parse_first_users(text)
    assert "AAAA" not in raised.value.message and "admin" not in raised.value.message
