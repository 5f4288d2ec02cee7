"""Delegation tokens on three nodes: created anywhere, accepted everywhere, and lost by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_authorized_cluster import ready
from tests.integration.test_secured_cluster import SecuredCluster
from tests.support.eventually import eventually_here
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST
from tests.support.security import Certificates
from tests.support.token_login import LoginFailed, TokenSession


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecuredCluster]:
    made = SecuredCluster(tmp_path, "SSL", Certificates(tmp_path))
    for member in made.members.values():
        member.settings |= {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "delegation.token.secret.key": "key",
            "delegation.token.expiry.check.interval.ms": "200",
        }
    async with made:
        yield made


class Users:
    """Connections of users to the nodes, which wait in threads: the nodes run on the test's event loop."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self._cluster = cluster

    async def ask(self, node_id: int, api: str, version: int, **values: Any) -> Any:
        port = self._cluster.client_ports[node_id - 1]
        return await self._in_thread(LoggedIn("t", HOST, port, user="eve", password="eve"), api, version, values)

    async def ask_with(self, node_id: int, token: dict[str, Any], api: str, version: int, **values: Any) -> Any:
        return await self._in_thread(self._with(node_id, token), api, version, values)

    async def accepts(self, node_id: int, token: dict[str, Any]) -> bool:
        session = self._with(node_id, token)
        try:
            await asyncio.to_thread(session.log_in)
        except LoginFailed:
            return False
        finally:
            session.hang_up()
        return True

    def _with(self, node_id: int, token: dict[str, Any]) -> TokenSession:
        port = self._cluster.client_ports[node_id - 1]
        return TokenSession("t", HOST, port, token_id=token["token_id"], hmac=bytes.fromhex(token["hmac"]))

    async def _in_thread(self, session: LoggedIn | TokenSession, api: str, version: int, values: Any) -> Any:
        try:
            return await asyncio.to_thread(lambda: session.ask(api, version, **values))
        finally:
            session.hang_up()


async def test_a_token_is_created_on_any_node_and_accepted_on_all(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    other = next(node_id for node_id in cluster.members if node_id != controller)
    token = await users.ask(other, "create_delegation_token", 3, renewers=[], max_lifetime=-1)
    assert token["error_code"] == "0 none"
    await cluster.until_agreed()
    assert [await users.accepts(node_id, token) for node_id in cluster.members] == [True] * 3
    # A node that forwards the request says that the client has used a token.
    for node_id in cluster.members:
        session = await users.ask_with(node_id, token, "describe_delegation_token", 3, owners=None)
        assert session["error_code"] == "64 delegation_token_request_not_allowed"
        secret = bytes.fromhex(token["hmac"])
        with pytest.raises(Exception, match="negative timestamp"):  # its time is -1, which the decoder rejects
            await users.ask_with(node_id, token, "expire_delegation_token", 2, hmac=secret, expiry_time_period=-1)
    assert token["token_id"] in cluster.members[controller].quorum.image.tokens


async def test_a_removed_token_is_rejected_on_every_node_and_after_a_restart(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    kept = await users.ask(1, "create_delegation_token", 3, renewers=[], max_lifetime=-1)
    gone = await users.ask(2, "create_delegation_token", 3, renewers=[], max_lifetime=-1)
    secret = bytes.fromhex(gone["hmac"])
    assert (await users.ask(3, "expire_delegation_token", 2, hmac=secret, expiry_time_period=-1))[
        "error_code"
    ] == "0 none"
    await cluster.until_agreed()
    assert [await users.accepts(node_id, gone) for node_id in cluster.members] == [False] * 3
    restarted = next(node_id for node_id in cluster.members if node_id != controller)
    cluster.members[restarted].kill()
    await cluster.members[restarted].start()
    await ready(cluster)
    assert (await users.accepts(restarted, kept), await users.accepts(restarted, gone)) == (True, False)


async def test_the_controller_removes_expired_tokens(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    quorum = cluster.members[controller].quorum
    token = await users.ask(1, "create_delegation_token", 3, renewers=[], max_lifetime=300)
    assert token["error_code"] == "0 none"
    await eventually_here(lambda: token["token_id"] not in quorum.image.tokens)
    assert not await users.accepts(controller, token)
