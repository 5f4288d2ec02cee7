"""DescribeUserScramCredentials through its handler."""

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName

from penstock.wire.api import ApiKey
from tests.unit.handlers.requests import ask_in_every_version

NOT_FOUND, DUPLICATE = 91, 92


async def test_nobody_has_a_password() -> None:
    users = tuple(UserName(name=name) for name in ("a", "b", "b"))
    [told] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=users)
    )
    assert [(result.user, result.error_code.value) for result in told.results] == [("a", NOT_FOUND), ("b", DUPLICATE)]
    [told] = await ask_in_every_version(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(users=None)
    )
    assert (told.error_code.value, told.results) == (0, ())
