"""DescribeUserScramCredentials through its handler."""

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

NOT_FOUND, DUPLICATE = 91, 92


async def test_no_user_has_credentials() -> None:
    users = tuple(UserName(name=name) for name in ("a", "b", "b"))
    [found] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=users)
    )
    assert [(result.user, result.error_code.value) for result in found.results] == [
        ("a", NOT_FOUND),
        ("b", DUPLICATE),
    ]
    [found] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=None)
    )
    assert (found.error_code.value, found.results) == (0, ())
