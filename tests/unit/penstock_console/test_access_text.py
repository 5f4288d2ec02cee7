"""ACLs as rows and as commands."""

from typing import Any

import pytest

from penstock_console.access_text import acl_command, acl_row, parse_acl
from penstock_console.errors import ApiError

ROW = {
    "principal": "User:alice",
    "permission": "allow",
    "operation": "read",
    "resource": "topic:orders",
    "host": "10.0.0.1",
}


def test_an_acl_is_read_from_its_row() -> None:
    acl = parse_acl(ROW)
    assert acl_row(acl) == ROW
    assert acl_command(acl) == "penstock acl allow alice read topic:orders --host 10.0.0.1"
    assert acl_command(acl, remove=True) == (
        "penstock acl remove alice read topic:orders --host 10.0.0.1 --permission allow --yes"
    )


def test_an_acl_without_a_host_is_for_every_host() -> None:
    acl = parse_acl({name: value for name, value in ROW.items() if name != "host"} | {"permission": "deny"})
    assert acl.host == "*"
    assert acl_command(acl) == "penstock acl deny alice read topic:orders"


def test_a_user_called_any_keeps_its_prefix() -> None:
    """Without it, the command would be about every user."""
    assert " User:any " in acl_command(parse_acl(ROW | {"principal": "User:any"}))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("alice", "Invalid ACL: expected an object with principal, permission"),
        (ROW | {"planet": "x"}, "Invalid ACL: expected an object"),
        (ROW | {"host": 7}, "Invalid ACL: expected an object"),
        (ROW | {"permission": "maybe"}, "Invalid permission of an ACL: expected allow or deny"),
    ],
)
def test_a_row_that_is_no_acl_is_rejected(given: Any, why: str) -> None:
    with pytest.raises(ApiError, match=why):
        parse_acl(given)
