"""Real clients over TLS and SASL: each mechanism, client certificates, and wrong credentials."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.compat.security.secured import MECHANISMS, PASSWORD, PROTOCOLS, TOKEN_S, USER, Secured
from tests.support.eventually import eventually, eventually_here

RoundTrip = Callable[[Secured, str, str, str, str], list[bytes]]


def with_confluent(secured: Secured, protocol: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer, Producer

    settings: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap(protocol),
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
        "ssl.ca.location": str(secured.certificates.authority),
        "log_level": 0,
    }
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (secured.tokens.issue(), time.time() + TOKEN_S)
    failed: list[object] = []
    producer = Producer({**settings, "message.timeout.ms": 30000 if password == PASSWORD else 2000})
    producer.produce(topic, b"one", on_delivery=lambda error, _: failed.append(error) if error else None)
    producer.flush(40)
    if failed:
        raise PermissionError(str(failed[0]))
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(60)
        assert message is not None and message.error() is None, message and message.error()
        value = message.value()
        assert isinstance(value, bytes)
        return [value]
    finally:
        consumer.close()


def with_kafka_python(secured: Secured, protocol: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.errors import KafkaError

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
        "ssl_cafile": str(secured.certificates.authority),
    }
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _kafka_python_token(secured)
    try:
        producer = KafkaProducer(**settings, max_block_ms=30000 if password == PASSWORD else 3000)
    except KafkaError as error:
        raise PermissionError(str(error)) from error
    try:
        producer.send(topic, b"one").get(30)
    except KafkaError as error:
        raise PermissionError(str(error)) from error
    finally:
        producer.close(5)
    consumer = KafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60000)
    try:
        return [next(consumer).value]
    finally:
        consumer.close()


def _kafka_python_token(secured: Secured) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return secured.tokens.issue()

    return Provider()


def _aiokafka_token(secured: Secured) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return secured.tokens.issue()

    return Provider()


def with_aiokafka(secured: Secured, protocol: str, mechanism: str, password: str, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.errors import KafkaError
    from aiokafka.helpers import create_ssl_context

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": USER,
        "sasl_plain_password": password,
    }
    if protocol.endswith("SSL"):
        settings["ssl_context"] = create_ssl_context(cafile=str(secured.certificates.authority))

    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = _aiokafka_token(secured)

    async def round_trip() -> list[bytes]:
        producer = AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"one")
        except KafkaError as error:
            raise PermissionError(str(error)) from error
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest")
        await consumer.start()
        try:
            message = await asyncio.wait_for(consumer.getone(), 60)
            return [message.value]
        finally:
            await consumer.stop()

    async def run() -> list[bytes]:
        try:
            return await round_trip()
        finally:
            await wait_for_closed_sockets()

    return asyncio.run(run())


async def wait_for_closed_sockets() -> None:
    """aiokafka does not wait for the connections that it closes, which may have unsent bytes on a busy machine."""
    transports: Any = asyncio.get_running_loop()._transports  # type: ignore[attr-defined]
    await eventually_here(lambda: all(each._sock is None for each in list(transports.values())))


def refusal(settings: dict[str, Any]) -> str:
    """Return the first error of a connection with these settings that librdkafka reports."""
    from confluent_kafka.admin import AdminClient

    errors: list[str] = []
    reporting: dict[str, Any] = {**settings, "error_cb": lambda error: errors.append(error.name())}
    admin = AdminClient(reporting)

    def is_refused() -> bool:
        admin.poll(0.1)
        return bool(errors)

    eventually(is_refused, what="an error of the client")
    return errors[0]


CLIENTS = {"confluent": with_confluent, "kafka-python": with_kafka_python, "aiokafka": with_aiokafka}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_produces_and_consumes(secured: Secured, client: str, protocol: str, mechanism: str) -> None:
    topic = f"{client}-{protocol}-{mechanism}".lower()
    assert CLIENTS[client](secured, protocol, mechanism, PASSWORD, topic) == [b"one"]


# kafka-python leaks its connection when the first login fails.
@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_refused(secured: Secured, client: str, mechanism: str) -> None:
    with pytest.raises(PermissionError):
        CLIENTS[client](secured, "SASL_SSL", mechanism, "guessed", "never-created")


def test_a_certificate_is_a_login(secured: Secured) -> None:
    from confluent_kafka.admin import AdminClient

    settings: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap("SSL"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.certificates.authority),
        "log_level": 0,
    }
    own = str(secured.certificates.client)
    admin = AdminClient({**settings, "ssl.certificate.location": own, "ssl.key.location": own})
    assert secured.broker.node.node_id in admin.list_topics(timeout=30).brokers
    for wrong in ({}, {"ssl.certificate.location": str(secured.certificates.stranger),
                       "ssl.key.location": str(secured.certificates.stranger)}):  # fmt: skip
        assert refusal({**settings, **wrong}) in ("_TRANSPORT", "_SSL")


def test_users_are_managed_with_the_admin_client(secured: Secured) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

    settings: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap("SASL_SSL"),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "ssl.ca.location": str(secured.certificates.authority),
        "log_level": 0,
    }
    admin = AdminClient({**settings, "sasl.username": USER, "sasl.password": PASSWORD})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    for future in admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"builder")]).values():
        future.result(30)
    asked: Any = admin.describe_user_scram_credentials(["bob"])
    described = asked["bob"].result(30)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_256, 8192)
    ]
    bob = {**settings, "sasl.username": "bob", "sasl.password": "builder"}
    assert AdminClient(bob).list_topics(timeout=30).brokers
    deletion = UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_256)
    for future in admin.alter_user_scram_credentials([deletion]).values():
        future.result(30)
    assert refusal(bob) == "_AUTHENTICATION"


def test_an_unsigned_token_is_refused(secured: Secured) -> None:
    settings: dict[str, Any] = {
        "bootstrap.servers": secured.bootstrap("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (secured.tokens.issue(symmetric=True), time.time() + TOKEN_S),
        "log_level": 0,
    }
    assert refusal(settings) == "_AUTHENTICATION"
