"""The configuration of a cluster: one file of Kafka's properties per node, the same here and on separate machines."""

import base64
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.cli.errors import CommandError

VOTERS_MAX = 3
"""A local cluster of more nodes has three voters; the others follow the quorum as brokers."""


class NodePlan(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    config: Path
    data: Path

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


def plan(
    folder: Path, *, hosts: Sequence[str], first_port: int, racks: Sequence[str], one_host: bool
) -> list[NodePlan]:
    """Number the nodes from 1; on one host their ports count up, on several they are the same."""
    if racks and len(racks) not in (1, len(hosts)) and len(hosts) % len(racks):
        raise CommandError(f"--racks names {len(racks)} racks for {len(hosts)} nodes: give one for each node.")
    return [
        NodePlan(
            node_id=number,
            host=host,
            port=first_port + (number - 1 if one_host else 0),
            rack=racks[(number - 1) % len(racks)] if racks else None,
            config=folder / f"node-{number}.properties",
            data=folder / f"node-{number}",
        )
        for number, host in enumerate(hosts, start=1)
    ]


def write(nodes: Sequence[NodePlan], settings: dict[str, str]) -> list[Path]:
    """Write the files that are not there yet, all for one cluster; returns those that were written."""
    cluster_id = next(filter(None, (_cluster_id(node.config) for node in nodes)), None) or _new_cluster_id()
    voters = ",".join(f"{node.node_id}@{node.address}" for node in nodes[:VOTERS_MAX])
    written = []
    for position, node in enumerate(nodes):
        if node.config.exists():
            continue
        lines = {
            "cluster.id": cluster_id,
            "node.id": str(node.node_id),
            "process.roles": "broker,controller" if position < VOTERS_MAX else "broker",
            "listeners": f"PLAINTEXT://{node.address}",
            "controller.quorum.voters": voters,
            "log.dirs": str(node.data),
            **({"broker.rack": node.rack} if node.rack is not None else {}),
            **settings,
        }
        node.config.parent.mkdir(parents=True, exist_ok=True)
        node.config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
        written.append(node.config)
    return written


def existing(folder: Path) -> list[Path]:
    return sorted(folder.glob("node-*.properties"), key=lambda path: int(path.stem.removeprefix("node-")))


def _cluster_id(config: Path) -> str | None:
    from penstock.config.properties import parse_properties

    return parse_properties(config.read_text(encoding="utf-8")).get("cluster.id") if config.exists() else None


def _new_cluster_id() -> str:
    """A random id as Kafka spells it; one that begins with a dash would be taken for an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text
