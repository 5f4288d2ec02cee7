"""ExpireDelegationToken, for clients that are not authenticated."""

from datetime import timedelta

from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

NOT_ALLOWED = 64


async def test_it_is_refused_in_every_version() -> None:
    body = ExpireDelegationTokenRequest(hmac=b"h", expiry_time_period=i64Timedelta.parse(timedelta(days=1)))
    for reply in await ask_in_every_version(ApiKey.EXPIRE_DELEGATION_TOKEN, body):
        assert reply.error_code == NOT_ALLOWED
