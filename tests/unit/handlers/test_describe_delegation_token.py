"""DescribeDelegationToken, for clients that are not authenticated."""

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

NOT_ALLOWED = 64


async def test_it_is_refused_in_every_version() -> None:
    body = DescribeDelegationTokenRequest(owners=None)
    for reply in await ask_in_every_version(ApiKey.DESCRIBE_DELEGATION_TOKEN, body):
        assert reply.error_code == NOT_ALLOWED
