"""AlterUserScramCredentials and DescribeUserScramCredentials through their handlers."""

from typing import Any

from penstock.handlers import alter_user_scram_credentials, describe_user_scram_credentials
from penstock.model.errors import StorageError
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import body_of


async def alter(node: FakeNode, *names: str, delete: tuple[str, ...] = ()) -> dict[str, int]:
    upsertions = [
        {"name": name, "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32}
        for name in names
    ]
    deletions = [{"name": name, "mechanism": 1} for name in delete]
    body = body_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, deletions=deletions, upsertions=upsertions)
    reply = await node.ask(alter_user_scram_credentials.handle, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, body)
    return {result.user: int(result.error_code) for result in reply.results}


async def describe(node: FakeNode, *names: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    body = body_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=[{"name": name} for name in names])
    reply: Any = await node.ask(describe_user_scram_credentials.handle, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, body)
    return [
        (each.user, int(each.error_code), [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in reply.results
    ]


async def test_users_are_created_described_and_removed() -> None:
    node = FakeNode()
    assert await alter(node, "alice", "bob", delete=("nobody",)) == {"alice": 0, "bob": 0, "nobody": 91}
    assert await describe(node) == [("alice", 0, [(1, 4096)]), ("bob", 0, [(1, 4096)])]
    assert await describe(node, "bob", "nobody", "bob") == [("bob", 92, []), ("nobody", 91, [])]
    assert await alter(node, delete=("bob",)) == {"bob": 0}
    assert await describe(node, "alice") == [("alice", 0, [(1, 4096)])]


async def test_a_controller_that_cannot_commit_refuses_every_user() -> None:
    node = FakeNode()
    node.quorum.refusal = StorageError("full")
    assert await alter(node, "alice", "bob") == {"alice": 56, "bob": 56}
