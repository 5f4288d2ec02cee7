"""SaslHandshake on listeners without SASL."""

from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

ILLEGAL_SASL_STATE = 34


async def test_no_mechanism_is_offered() -> None:
    for reply in await ask_in_every_version(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN")):
        assert (reply.error_code, reply.mechanisms) == (ILLEGAL_SASL_STATE, ())
