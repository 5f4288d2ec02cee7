"""Every API with and without each of the rights it requires, over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.wire.api import APIS, NOTHING, Api, ApiKey
from tests.differential.entities import API_KEYS, API_NAMES
from tests.support.authorization_rows import CODES, HIDDEN, KINDS, OPERATIONS, ROWS, Row, grant
from tests.support.logged_in import LoggedIn

DENIALS = set(CODES.values())
TOKENS = range(38, 42)


def codes(value: Any) -> set[int]:
    """Return all error codes in a response, whatever their field."""
    if isinstance(value, list):
        return set().union(*map(codes, value))
    if not isinstance(value, dict):
        return set()
    found = set()
    for name, field in value.items():
        if name in ("error_code", "partition_error_code") and isinstance(field, str):
            found.add(int(field.split()[0]))
        found |= codes(field)
    return found


def check_denied(row: Row, answer: Any, code: int) -> None:
    assert isinstance(answer, dict), f"{row}: {answer}"
    if code == HIDDEN:
        assert not codes(answer) & DENIALS and row.hides not in json.dumps(answer), f"{row}: {answer}"
    else:
        assert code in codes(answer), f"{row}: {answer}"


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_request_needs_each_of_its_rights_and_no_more(row: Row, admin: LoggedIn, alice: LoggedIn) -> None:
    values = row.request(admin)
    grant(admin, "User:alice")
    check_denied(row, alice.ask(row.api, row.version, **values), row.needs[0].code)
    for missing in row.needs[1:]:
        grant(admin, "User:alice", *(each for each in row.needs if each != missing))
        check_denied(row, alice.ask(row.api, row.version, **values), missing.code)
    if row.is_carried_out:
        grant(admin, "User:alice", *row.needs)
        answer = alice.ask(row.api, row.version, **values)
        assert isinstance(answer, dict) and not codes(answer) & DENIALS, f"{row}: {answer}"
        if row.hides:
            assert row.hides in json.dumps(answer), f"{row}: {answer}"


@pytest.mark.parametrize("api", [api for api in APIS.values() if api.requires != NOTHING], ids=lambda api: api.name)
def test_every_api_has_a_row_for_each_right_it_declares(api: Api) -> None:
    if api.key in TOKENS:
        pytest.skip("tokens have tests of their own")
    kinds = {number: name for name, number in KINDS.items()}
    operations = {number: name for name, number in OPERATIONS.items()}
    declared = {(kinds[each.resource_type], operations[each.operation]) for each in api.requires.rights}
    rows = {(each.kind, each.operation) for row in ROWS if API_KEYS[row.api] == api.key for each in row.needs}
    if api.key in (ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DELETE_SHARE_GROUP_OFFSETS):
        declared.remove(("topic", "read"))  # needs a session or a group: test_authorization_in_use.py
    assert declared <= rows, f"{API_NAMES[api.key]}: {declared - rows}"
