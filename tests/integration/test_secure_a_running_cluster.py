"""A cluster moves from plain text to TLS, one node at a time, without losing its quorum."""

from __future__ import annotations

from pathlib import Path

from tests.integration.nodes import CLUSTER_ID, Cluster, Member
from tests.support.eventually import eventually_here
from tests.support.ports import HOST, free_ports
from tests.support.security import Certificates


class UpgradedCluster(Cluster):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._certificates = Certificates(folder).broker_options()
        self._plain, self._tls = free_ports(3), free_ports(3)
        self.members = {node: Member(self.options(node, step=0)) for node in (1, 2, 3)}

    def is_whole(self) -> bool:
        return self.active is not None and len(list(self.active.quorum.image.live_brokers())) == 3

    def options(self, node: int, step: int) -> dict[str, str]:
        """Return the options of a node: 0 plain text, 1 with both listeners, 2 using TLS, 3 with TLS only."""
        plain = f"PLAINTEXT://{HOST}:{self._plain[node - 1]}"
        tls = f"NODES://{HOST}:{self._tls[node - 1]}"
        voters = self._plain if step < 2 else self._tls
        options = {
            "node.id": str(node),
            "cluster.id": CLUSTER_ID,
            "log.dirs": str(self._folder / str(node)),
            "listeners": (plain, f"{plain},{tls}", f"{plain},{tls}", tls)[step],
            "controller.quorum.voters": ",".join(f"{index + 1}@{HOST}:{port}" for index, port in enumerate(voters)),
            "log.reserve.bytes": "0",
        }
        if step:
            options |= {
                **self._certificates,
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,NODES:SSL",
                "listener.name.nodes.ssl.client.auth": "required",
            }
        if step >= 2:
            options["inter.broker.listener.name"] = "NODES"
        if step in (1, 2):
            options["node.listener.names"] = ("NODES", "PLAINTEXT")[step - 1]
        return options


async def test_a_running_cluster_is_secured_one_node_at_a_time(tmp_path: Path) -> None:
    cluster = UpgradedCluster(tmp_path)
    async with cluster:
        for step in (1, 2, 3):
            for node, member in cluster.members.items():
                await member.stop()
                member.settings = cluster.options(node, step)
                await member.start()
                await cluster.until_active()
                await eventually_here(cluster.is_whole)
                await cluster.until_agreed()
        active = await cluster.until_active()
        for broker in active.quorum.image.brokers.values():
            assert [(each.name, each.security_protocol) for each in broker.end_points] == [("NODES", 1)]
