"""SaslAuthenticate on listeners without SASL."""

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

ILLEGAL_SASL_STATE = 34


async def test_credentials_are_refused_and_not_sent_back() -> None:
    for reply in await ask_in_every_version(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=b"secret")):
        assert (reply.error_code, reply.auth_bytes) == (ILLEGAL_SASL_STATE, b"")
        assert reply.error_message == "SaslAuthenticate request received after successful authentication"
