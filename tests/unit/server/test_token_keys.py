"""The keys of tokens are loaded at startup, then again in time; a document that cannot be loaded changes nothing."""

import json
from typing import Any

import pytest

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.config.listeners import listener_config
from penstock.config.settings import BrokerSettings
from penstock.model.errors import StartupError
from penstock.security.jwt import InvalidToken
from penstock.server.token_keys import RELOAD_S_MIN, TokenKeys
from tests.support.stepped_clock import settle
from tests.unit.ports.ticking import TickingClock

jwt = pytest.importorskip("jwt")

URL = "file:///keys.json"
REFRESH_S = 3600
KEYS = [ec.derive_private_key(number, ec.SECP256R1()) for number in (7, 11)]


def document(*numbers: int) -> bytes:
    keys = [json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEYS[number].public_key())) for number in numbers]
    return json.dumps(
        {"keys": [key | {"kid": str(number)} for key, number in zip(keys, numbers, strict=True)]}
    ).encode()


class Documents:
    """Returns the document, or raises the problem, that the test sets."""

    def __init__(self) -> None:
        self.found: bytes | OSError = document(0)
        self.count = 0

    async def read(self, url: str) -> bytes:
        assert url == URL
        self.count += 1
        if isinstance(self.found, OSError):
            raise self.found
        return self.found


class Node:
    def __init__(self) -> None:
        self.clock = TickingClock()
        self.documents = Documents()
        prefix = "listener.name.sasl_plaintext.oauthbearer.sasl.oauthbearer."
        settings = BrokerSettings(
            {
                "listeners": "SASL_PLAINTEXT://:9092",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{prefix}jwks.endpoint.url": URL,
                f"{prefix}jwks.endpoint.refresh.ms": str(REFRESH_S * 1000),
                f"{prefix}expected.audience": "kafka",
            }
        )
        self.keys = TokenKeys(listener_config(settings, "SASL_PLAINTEXT"), self.documents, self.clock)

    def user(self, number: int, audience: str = "kafka") -> str:
        """Return the user of a token that is signed with a key."""
        claims: dict[str, Any] = {"sub": "alice", "exp": 10**9, "aud": audience}
        return self.keys.verify(jwt.encode(claims, KEYS[number], "ES256", headers={"kid": str(number)})).user


async def test_a_token_of_a_known_key_is_accepted() -> None:
    node = Node()
    await node.keys.start()
    assert node.user(0) == "alice"
    with pytest.raises(InvalidToken, match="another audience"):
        node.user(0, audience="other")
    node.keys.stop()
    assert node.clock.waiting == []


@pytest.mark.parametrize("found", (OSError("the server is down"), b"no keys"))
async def test_keys_that_cannot_be_loaded_stop_the_start(found: bytes | OSError) -> None:
    node = Node()
    node.documents.found = found
    with pytest.raises(StartupError, match=r"Cannot load the keys of sasl\.oauthbearer\.jwks\.endpoint\.url: "):
        await node.keys.start()
    node.keys.stop()


async def test_an_unknown_key_loads_the_document_again_but_not_too_often() -> None:
    node = Node()
    await node.keys.start()
    node.documents.found = document(0, 1)
    for _ in range(2):
        with pytest.raises(InvalidToken, match="not signed by a known key"):
            node.user(1)
    await settle()
    assert node.documents.count == 1, "the document was loaded a moment ago"
    node.clock.tick(RELOAD_S_MIN)
    with pytest.raises(InvalidToken):
        node.user(1)
    await settle()
    assert (node.documents.count, node.user(1)) == (2, "alice")
    node.keys.stop()


async def test_the_document_is_loaded_again_in_time_and_the_present_keys_survive_a_problem(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = Node()
    await node.keys.start()
    node.documents.found = OSError("the server is down")
    node.clock.tick(REFRESH_S)
    await settle()
    assert node.documents.count == 2 and node.user(0) == "alice"
    assert "the present ones stay in use: the server is down" in caplog.text
    node.documents.found = document(1)
    node.clock.tick(REFRESH_S)
    await settle()
    assert node.user(1) == "alice"
    with pytest.raises(InvalidToken):
        node.user(0)
    node.keys.stop()


async def test_stopping_ends_a_load_that_is_under_way() -> None:
    node = Node()
    await node.keys.start()
    node.clock.tick(REFRESH_S)
    node.keys.stop()
    await settle()
    assert node.documents.count == 1
