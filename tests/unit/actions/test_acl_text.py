"""ACLs as people write them."""

import pytest

from penstock.actions.acl_text import (
    ResourcePattern,
    check_host,
    check_operation,
    parse_filter,
    parse_one_operation,
    parse_one_principal,
    parse_one_resource,
    parse_operation,
    parse_principal,
    parse_resource,
)
from penstock.actions.errors import ActionError
from penstock.model.acl import OPERATION_NAMES, Operation, PatternType, ResourceType
from penstock.security.acl_filter import AclFilter


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("topic:orders", ResourcePattern(ResourceType.TOPIC, "orders")),
        ("topic:orders-*", ResourcePattern(ResourceType.TOPIC, "orders-", PatternType.PREFIXED)),
        ("topic:*", ResourcePattern(ResourceType.TOPIC, "*")),
        ("group:a\\*", ResourcePattern(ResourceType.GROUP, "a*")),
        ("group:a:b", ResourcePattern(ResourceType.GROUP, "a:b")),
        ("txn:pay", ResourcePattern(ResourceType.TRANSACTIONAL_ID, "pay")),
        ("cluster", ResourcePattern(ResourceType.CLUSTER, "kafka-cluster")),
        ("user:bob", ResourcePattern(ResourceType.USER, "User:bob")),
        ("user:*", ResourcePattern(ResourceType.USER, "*")),
        ("user:app-*", ResourcePattern(ResourceType.USER, "User:app-", PatternType.PREFIXED)),
        ("token:id", ResourcePattern(ResourceType.DELEGATION_TOKEN, "id")),
    ],
)
def test_a_resource_is_parsed_and_written_again(text: str, pattern: ResourcePattern) -> None:
    assert parse_resource(text) == pattern
    assert str(pattern) == text


@pytest.mark.parametrize("text", ["", "orders", "topic:", "topic", "cluster:other", "queue:q", "user:User:"])
def test_a_resource_without_a_meaning_is_rejected(text: str) -> None:
    with pytest.raises(ActionError, match=f"'{text}'|'User:'"):
        parse_resource(text)


@pytest.mark.parametrize(
    ("text", "principal"),
    [("bob", "User:bob"), ("User:bob", "User:bob"), ("user:bob", "User:bob"), ("*", "User:*"), ("CN=a", "User:CN=a")],
)
def test_principals(text: str, principal: str) -> None:
    assert parse_principal(text) == principal


def test_operations_have_any_spelling() -> None:
    for text in ("describe-configs", "DescribeConfigs", "DESCRIBE_CONFIGS"):
        assert parse_operation(text) == Operation.DESCRIBE_CONFIGS
    for number, name in OPERATION_NAMES.items():
        if number != Operation.ANY:
            assert parse_operation(name) == number
    for text in ("any", "reed", ""):
        with pytest.raises(ActionError, match=r"Unknown operation"):
            parse_operation(text)


def test_what_no_request_could_need_is_rejected() -> None:
    with pytest.raises(ActionError, match="does not apply to group:g"):
        check_operation(Operation.WRITE, parse_resource("group:g"))
    check_operation(Operation.ALL, parse_resource("group:g"))
    with pytest.raises(ActionError, match="IP address"):
        check_host("localhost")
    assert [check_host(host) for host in ("*", "10.0.0.1", "::1")] == ["*", "10.0.0.1", "::1"]


def test_a_request_is_about_one_user_operation_and_resource() -> None:
    for text in ("topic:*", "topic:a*"):
        with pytest.raises(ActionError, match="one resource"):
            parse_one_resource(text)
    with pytest.raises(ActionError, match="one user"):
        parse_one_principal("*")
    with pytest.raises(ActionError, match="single"):
        parse_one_operation("all")


def test_filters() -> None:
    assert parse_filter() == AclFilter() == parse_filter("any", "any", "ANY")
    assert parse_filter("User:any").principal == "User:any"
    assert parse_filter(resource="topic") == AclFilter(resource_type=ResourceType.TOPIC)
    expected = AclFilter(ResourceType.TOPIC, "a-", PatternType.PREFIXED, "User:bob", operation=Operation.READ)
    assert parse_filter("bob", "read", "topic:a-*") == expected


def test_a_misspelled_word_is_answered_with_the_most_similar_one() -> None:
    with pytest.raises(ActionError, match=r"Unknown operation 'raed'. Did you mean 'read'\? Use one of: all, read, "):
        parse_operation("raed")
    with pytest.raises(ActionError, match=r"Invalid resource 'topc:a'. Did you mean 'topic'\? Use one of: topic:NAME"):
        parse_resource("topc:a")
