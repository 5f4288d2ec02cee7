"""Three nodes with ACLs: forwarded requests, changes on every node, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_secured_cluster import SecuredCluster
from tests.support.authorization_rows import Grant, grant, need
from tests.support.eventually import eventually_here
from tests.support.logged_in import LoggedIn
from tests.support.ports import HOST
from tests.support.security import Certificates, jaas

DENIED = "29 topic_authorization_failed"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecuredCluster]:
    made = SecuredCluster(tmp_path, "SSL", Certificates(tmp_path))
    for member in made.members.values():
        member.settings |= {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "listener.name.clients.plain.sasl.jaas.config": jaas(admin="admin", eve="eve"),
        }
    async with made:
        yield made


class Users:
    """Connections of users to the nodes, which wait in threads: the nodes run on the test's event loop."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self._cluster = cluster

    def _on(self, node_id: int, user: str) -> LoggedIn:
        return LoggedIn("users", HOST, self._cluster.client_ports[node_id - 1], user=user, password=user)

    async def ask(self, node_id: int, user: str, api: str, version: int, **values: Any) -> dict[str, Any]:
        session = self._on(node_id, user)
        try:
            answer = await asyncio.to_thread(session.ask, api, version, **values)
        finally:
            session.hang_up()
        assert isinstance(answer, dict), answer
        return answer

    async def grant(self, node_id: int, *grants: Grant) -> None:
        session = self._on(node_id, "admin")
        try:
            await asyncio.to_thread(grant, session, "User:eve", *grants)
        finally:
            session.hang_up()

    async def create(self, node_id: int, name: str) -> str:
        topic = {"name": name, "num_partitions": 1, "replication_factor": 3}
        answer = await self.ask(node_id, "eve", "create_topics", 7, topics=[topic], timeout=30_000)
        return str(answer["topics"][0]["error_code"])

    async def sees(self, node_id: int, name: str) -> bool:
        answer = await self.ask(node_id, "eve", "metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
        return bool(answer["topics"][0]["error_code"] != DENIED)


async def ready(cluster: SecuredCluster) -> int:
    """Wait until all brokers are alive; return the active controller."""
    active = await cluster.until_active()
    await eventually_here(lambda: len(list(active.quorum.image.live_brokers())) == 3)
    return int(active.quorum.node_id)


async def test_a_forwarded_request_is_authorized_as_the_client(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    others = [node_id for node_id in cluster.members if node_id != controller]
    for node_id in (others[0], controller):
        assert await users.create(node_id, "mine") == DENIED
    await users.grant(others[0], need("topic create", name="mine"))
    assert await users.create(others[1], "mine") == "0 none"
    assert await users.create(others[1], "yours") == DENIED


async def test_a_change_is_enforced_on_every_node(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    for grants, expected in (((need("topic describe", name="t"),), True), ((), False)):
        await users.grant(controller, *grants)
        await cluster.until_agreed()
        assert [await users.sees(node_id, "t") for node_id in cluster.members] == [expected] * 3


async def test_acls_survive_a_restart_and_nodes_need_none(cluster: SecuredCluster) -> None:
    controller = await ready(cluster)
    users = Users(cluster)
    await users.grant(controller, need("topic create", name="mine"))
    restarted = next(node_id for node_id in cluster.members if node_id != controller)
    cluster.members[restarted].kill()
    await cluster.members[restarted].start()
    await ready(cluster)
    assert await users.create(restarted, "mine") == "0 none"
    assert await users.create(restarted, "yours") == DENIED
