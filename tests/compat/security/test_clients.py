"""Real clients over TLS and SASL: each mechanism, client certificates, and wrong credentials."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import Broker
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates, first_user, jaas

USER, PASSWORD = "alice", "wonderland"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


class Secured:
    """A broker with a listener for each protocol."""

    def __init__(self, folder: Path) -> None:
        self.certificates = Certificates(folder)
        self.ports = dict(zip(("SASL_PLAINTEXT", "SASL_SSL", "SSL"), free_ports(3), strict=True))
        self.broker = Broker(
            {
                **self.certificates.broker_options(),
                "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items()),
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.ssl.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/,DEFAULT",
                "bootstrap.scram.credentials": first_user(USER, PASSWORD),
                **{
                    f"listener.name.{name.lower()}.plain.sasl.jaas.config": jaas(**{USER: PASSWORD})
                    for name in PROTOCOLS
                },
            },
            port=self.ports["SSL"],
        )

    def bootstrap(self, protocol: str) -> str:
        return f"{HOST}:{self.ports[protocol]}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker:
        yield made


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

    async def run() -> list[bytes]:
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

    return asyncio.run(run())


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
        "socket.connection.setup.timeout.ms": 3000,
    }
    own = str(secured.certificates.client)
    admin = AdminClient({**settings, "ssl.certificate.location": own, "ssl.key.location": own})
    assert secured.broker.node.node_id in admin.list_topics(timeout=30).brokers
    for wrong in ({}, {"ssl.certificate.location": str(secured.certificates.stranger),
                       "ssl.key.location": str(secured.certificates.stranger)}):  # fmt: skip
        refused = AdminClient({**settings, **wrong})
        with pytest.raises(Exception, match=r"_TRANSPORT|_TIMED_OUT"):
            refused.list_topics(timeout=3)


def test_users_are_managed_with_the_admin_client(secured: Secured) -> None:
    from confluent_kafka import KafkaException
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
    with pytest.raises(KafkaException):
        AdminClient(bob).list_topics(timeout=3)


def test_librdkafka_logs_in_with_a_signed_token(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from confluent_kafka.admin import AdminClient
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, rsa

    key = rsa.generate_private_key(65537, 2048)
    numbers = key.public_key().public_numbers()

    def encode(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    def token(subject: str, *, symmetric: bool = False) -> str:
        head = {"alg": "HS256" if symmetric else "RS256", "kid": "k"}
        claims = {"sub": subject, "exp": int(time.time()) + 600, "iat": int(time.time()), "aud": "kafka"}
        signed = f"{encode(json.dumps(head).encode())}.{encode(json.dumps(claims).encode())}"
        if symmetric:
            return f"{signed}.{encode(hmac.digest(b'secret', signed.encode(), 'sha256'))}"
        return f"{signed}.{encode(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    jwks = tmp_path / "jwks.json"
    jwks.write_text(
        json.dumps({"keys": [{"kty": "RSA", "kid": "k", "n": encode(numbers.n.to_bytes(256)), "e": "AQAB"}]})
    )
    (port,) = free_ports(1)
    broker = Broker(
        {
            "listeners": f"SASL_PLAINTEXT://{HOST}:{port}",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{jwks}",
            "sasl.oauthbearer.expected.audience": "kafka",
        },
        port=port,
    )
    with broker:
        for made, is_accepted in ((token("alice"), True), (token("alice", symmetric=True), False)):
            settings: dict[str, Any] = {
                "bootstrap.servers": broker.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "oauth_cb": lambda _, made=made: (made, time.time() + 600),
                "log_level": 0,
            }
            admin = AdminClient(settings)
            admin.poll(1)
            if is_accepted:
                assert admin.list_topics(timeout=30).brokers
            else:
                with pytest.raises(Exception, match=r"_TRANSPORT|_TIMED_OUT|_AUTHENTICATION"):
                    admin.list_topics(timeout=3)
