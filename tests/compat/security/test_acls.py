"""The ACL calls of real admin clients on a secured broker, and what the broker then enforces."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.actions.connection import Connection
from penstock.actions.users import add_user
from penstock.testing import Broker
from tests.support.foreign import go_program

PASSWORD = "wonderland"
WAIT_S = 30


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    pytest.importorskip("cryptography")
    with Broker(secure=True) as made:
        connection = Connection(made.bootstrap, made.client_properties)
        for user in ("bob", "carol"):
            add_user(connection, user, PASSWORD)
        yield made


def login(broker: Broker, user: str = "") -> dict[str, Any]:
    """Return the settings of librdkafka for a user, by default for the administrator."""
    settings: dict[str, Any] = {**broker.client_properties, "bootstrap.servers": broker.bootstrap, "log_level": 0}
    return {**settings, "sasl.username": user, "sasl.password": PASSWORD} if user else settings


def test_confluent_kafka(broker: Broker) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        AdminClient,
        NewTopic,
        ResourcePatternType,
        ResourceType,
    )

    admin, bob = AdminClient(login(broker)), AdminClient(login(broker, "bob"))
    topics = {"bob-a", "bob-b", "other"}
    for future in admin.create_topics([NewTopic(name, 1) for name in topics]).values():
        future.result(WAIT_S)

    def rule(name: str, pattern: Any, permission: Any) -> Any:
        operation = AclOperation.DESCRIBE
        return AclBinding(ResourceType.TOPIC, name, pattern, "User:bob", "*", operation, permission)

    def seen() -> set[str]:
        return topics & set(bob.list_topics(timeout=WAIT_S).topics)

    every: Any = None  # the stubs of the client demand a string
    everything = AclBindingFilter(
        ResourceType.ANY, every, ResourcePatternType.ANY, "User:bob", every, AclOperation.ANY, AclPermissionType.ANY
    )
    prefix = rule("bob-", ResourcePatternType.PREFIXED, AclPermissionType.ALLOW)
    literal = rule("other", ResourcePatternType.LITERAL, AclPermissionType.ALLOW)
    wildcard = rule("*", ResourcePatternType.LITERAL, AclPermissionType.ALLOW)
    deny = rule("bob-b", ResourcePatternType.LITERAL, AclPermissionType.DENY)
    assert seen() == set()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        bob.delete_acls([everything])[everything].result(WAIT_S)
    visible = [{"bob-a", "bob-b"}, {"bob-a"}, {"bob-a", "other"}, {"bob-a", "other"}]
    for new, expected in zip((prefix, deny, literal, wildcard), visible, strict=True):
        for future in admin.create_acls([new]).values():
            future.result(WAIT_S)
        assert seen() == expected
    assert set(admin.describe_acls(everything).result(WAIT_S)) == {prefix, deny, literal, wildcard}
    # librdkafka 2.16 ignores the error CLUSTER_AUTHORIZATION_FAILED of the response, and returns an empty list.
    assert bob.describe_acls(everything).result(WAIT_S) == []
    deleted = admin.delete_acls([everything])[everything].result(WAIT_S)
    assert set(deleted) == {prefix, deny, literal, wildcard}
    assert admin.describe_acls(everything).result(WAIT_S) == []
    assert seen() == set()


def test_confluent_kafka_reports_an_acl_that_cannot_exist(broker: Broker) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
    )

    admin = AdminClient(login(broker))
    where = (ResourceType.TOPIC, "t", ResourcePatternType.LITERAL)
    what = (AclOperation.READ, AclPermissionType.ALLOW)
    wrong, right = (AclBinding(*where, principal, "*", *what) for principal in ("nobody", "User:dave"))
    results = admin.create_acls([wrong, right])
    with pytest.raises(KafkaException, match="principalType:principalName"):
        results[wrong].result(WAIT_S)
    results[right].result(WAIT_S)


def test_kafka_python(broker: Broker) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        NewTopic,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
    )
    from kafka.errors import ClusterAuthorizationFailedError

    def client(user: str = "") -> Any:
        settings = login(broker, user)
        return KafkaAdminClient(
            bootstrap_servers=broker.bootstrap,
            security_protocol=settings["security.protocol"],
            sasl_mechanism=settings["sasl.mechanism"],
            sasl_plain_username=settings["sasl.username"],
            sasl_plain_password=settings["sasl.password"],
            ssl_cafile=settings["ssl.ca.location"],
        )

    def rule(name: str, pattern: Any, permission: Any, host: str = "*") -> Any:
        resource = ResourcePattern(ResourceType.TOPIC, name, pattern)
        return ACL("User:carol", host, ACLOperation.DESCRIBE, permission, resource)

    every_resource = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    everything = ACLFilter("User:carol", None, ACLOperation.ANY, ACLPermissionType.ANY, every_resource)
    prefix = rule("carol-", ACLResourcePatternType.PREFIXED, ACLPermissionType.ALLOW, "127.0.0.1")
    deny = rule("carol-b", ACLResourcePatternType.LITERAL, ACLPermissionType.DENY)
    admin, carol = client(), client("carol")
    try:
        admin.create_topics([NewTopic(name, 1, 1) for name in ("carol-a", "carol-b")])
        assert carol.list_topics() == []
        with pytest.raises(ClusterAuthorizationFailedError):
            carol.describe_acls(everything)
        created = admin.create_acls([prefix])
        assert created["succeeded"] == [prefix] and created["failed"] == []
        assert set(carol.list_topics()) == {"carol-a", "carol-b"}
        admin.create_acls([deny])
        assert set(carol.list_topics()) == {"carol-a"}
        found, _ = admin.describe_acls(everything)
        assert set(found) == {prefix, deny}
        ((_, affected, _),) = admin.delete_acls([everything])
        assert set(affected) == {prefix, deny}
        assert admin.describe_acls(everything)[0] == []
        assert carol.list_topics() == []
    finally:
        admin.close()
        carol.close()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_franz_go(broker: Broker) -> None:
    program = go_program(Path(__file__).parent / "franz_go_acls", "franz-go-acls")
    admin = login(broker)
    given = {
        "bootstrap": broker.bootstrap,
        "authority": admin["ssl.ca.location"],
        "user": admin["sasl.username"],
        "password": admin["sasl.password"],
        "other": "carol",
        "otherPassword": PASSWORD,
    }
    done = subprocess.run(program, input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines == [
        "before []",
        "allowed [go-a go-b]",
        "described User:carol * TOPIC go- PREFIXED DESCRIBE ALLOW",
        "denied CLUSTER_AUTHORIZATION_FAILED: Cluster authorization failed.",
        "token carol 1h0m0s",
        "delegated [go-a go-b]",
        "a token creates none true",
        "tokens 1",
        "deleted 1",
        "after []",
    ]
