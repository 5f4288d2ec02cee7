from functools import partial

import pytest

from penstock.actions.connection import Connection
from penstock.actions.errors import (
    UNKNOWN_SHARE_GROUP,
    UNKNOWN_TOPIC,
    UNKNOWN_USER,
    ActionError,
    ActionErrors,
    unknown_topic,
)
from penstock.cli.hints import describe
from penstock.cli.suggestions import NAMES_BY_ERROR, add_suggestion, did_you_mean

NOWHERE = Connection("localhost:1")


KNOWN = {
    UNKNOWN_TOPIC: ["orders", "payments", "Orders.DLQ"],
    "GROUP_ID_NOT_FOUND": ["billing"],
    UNKNOWN_SHARE_GROUP: ["jobs"],
    UNKNOWN_USER: ["alice"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in KNOWN:
        monkeypatch.setitem(NAMES_BY_ERROR, code, partial(known_names, code))


def known_names(code: str, connection: Connection) -> list[str]:
    return KNOWN[code]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ordrs", "Did you mean 'orders'?"),
        ("ORDERS", "Did you mean 'orders'?"),
        ("orders.dlq", "Did you mean 'Orders.DLQ'?"),
        ("zzz", ""),
        ("orders", ""),
    ],
)
def test_only_similar_names_are_suggested(name: str, expected: str) -> None:
    known = ["orders", "payments"] + (["Orders.DLQ"] if "." in name else [])
    assert did_you_mean(name, known) == expected


def test_an_unknown_topic_is_answered_with_a_similar_one() -> None:
    error = unknown_topic("ordrs")
    add_suggestion(error, NOWHERE)
    assert describe(error) == (
        "Topic 'ordrs' does not exist. Did you mean 'orders'? Run 'penstock topic list' to list the topics."
    )


def test_each_of_several_errors_gets_its_suggestion() -> None:
    errors = ActionErrors([unknown_topic("paymets"), ActionError("gone", code="GROUP_ID_NOT_FOUND", about="biling")])
    add_suggestion(errors, NOWHERE)
    assert [each.suggestion for each in errors.errors] == ["Did you mean 'payments'?", "Did you mean 'billing'?"]


def test_unknown_share_groups_and_users_are_answered_with_similar_ones() -> None:
    group = ActionError("Share group 'job' does not exist.", code=UNKNOWN_SHARE_GROUP, about="job")
    user = ActionError("User 'alise' does not exist.", code=UNKNOWN_USER, about="alise")
    for error in (group, user):
        add_suggestion(error, NOWHERE)
    assert describe(group) == (
        "Share group 'job' does not exist. Did you mean 'jobs'? Run 'penstock queue list' to list the share groups."
    )
    assert describe(user) == (
        "User 'alise' does not exist. Did you mean 'alice'? Run 'penstock user list' to list the users."
    )


def test_an_unknown_topic_setting_is_answered_with_a_similar_one() -> None:
    error = ActionError("orders: Unknown topic config name: retention.m.", code="INVALID_CONFIG", about="orders")
    add_suggestion(error, NOWHERE)
    assert error.suggestion == "Did you mean 'retention.ms'?"


def test_a_failed_search_leaves_the_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(connection: Connection) -> list[str]:
        raise OSError("unreachable")

    monkeypatch.setitem(NAMES_BY_ERROR, UNKNOWN_TOPIC, fail)
    error = unknown_topic("ordrs")
    add_suggestion(error, NOWHERE)
    assert error.suggestion == ""
