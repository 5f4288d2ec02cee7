"""Configuration files of a cluster: one properties file per node, on one machine or on several."""

import base64
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.actions.addresses import parse_address
from penstock.actions.errors import ActionError
from penstock.actions.secure_folder import LISTENER, SecureFolder

VOTERS_MAX = 3
"""In a larger cluster the other nodes are brokers only."""


class NodePlan(NamedTuple):
    """One node of a cluster and where its files are."""

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
    """Plan nodes with ids from 1. Nodes on one host get consecutive ports, others the same port.

    A host may be given as HOST:PORT. Paths are absolute, so that the files work in any working directory.
    """
    folder = folder.absolute()
    if racks and len(racks) not in (1, len(hosts)) and len(hosts) % len(racks):
        raise ActionError(f"Cannot assign {len(racks)} racks to {len(hosts)} nodes: give one rack per node.")
    addresses = [
        parse_address(host, default_port=first_port + (index if one_host else 0)) for index, host in enumerate(hosts)
    ]
    return [
        NodePlan(
            node_id=number,
            host=host,
            port=port,
            rack=racks[(number - 1) % len(racks)] if racks else None,
            config=folder / f"node-{number}.properties",
            data=folder / f"node-{number}",
        )
        for number, (host, port) in enumerate(addresses, start=1)
    ]


def read(folder: Path) -> list[NodePlan]:
    """Return the nodes whose files are in a folder, by id; none if there are no files."""
    return sorted(_read_node(path.absolute()) for path in folder.glob("node-*.properties"))


def _read_node(path: Path) -> NodePlan:
    from penstock.config.properties import parse_properties

    settings = parse_properties(path.read_text(encoding="utf-8"))
    listener = settings.get("listeners", "").partition(",")[0].partition("://")[2]
    if not listener or not settings.get("node.id", "").isdigit():
        raise ActionError(f"{path} does not set 'node.id' and 'listeners': restore the file, or choose another folder.")
    host, port = parse_address(listener)
    data = Path(settings.get("log.dirs", "").partition(",")[0] or path.stem)
    if not data.is_absolute():
        # Written by a release that wrote relative paths. The data is next to the file.
        data = path.with_name(data.name)
    return NodePlan(int(settings["node.id"]), host, port, settings.get("broker.rack"), path, data)


NODES_LISTENER = "NODES"


def secure_options(nodes: Sequence[NodePlan], folder: SecureFolder) -> list[dict[str, str]]:
    """Return the options of each node of a secured cluster: clients log in, nodes use their certificates."""
    node_ports = {node.node_id: node.port + len(nodes) for node in nodes}
    voters = ",".join(f"{node.node_id}@{node.host}:{node_ports[node.node_id]}" for node in nodes[:VOTERS_MAX])
    return [
        {
            **folder.broker_options(),
            "listeners": f"{LISTENER}://{node.address},{NODES_LISTENER}://{node.host}:{node_ports[node.node_id]}",
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,{NODES_LISTENER}:SSL",
            "inter.broker.listener.name": NODES_LISTENER,
            f"listener.name.{NODES_LISTENER.lower()}.ssl.client.auth": "required",
            "controller.quorum.voters": voters,
        }
        for node in nodes
    ]


def write(
    nodes: Sequence[NodePlan], settings: dict[str, str], secured: Sequence[dict[str, str]] | None = None
) -> list[Path]:
    """Write the files that do not exist yet, with one cluster id; return their paths."""
    cluster_id = next(filter(None, (_cluster_id(node.config) for node in nodes)), None) or new_cluster_id()
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
            **(secured[position] if secured is not None else {}),
            **settings,
        }
        node.config.parent.mkdir(parents=True, exist_ok=True)
        # The file of a secured node contains credentials.
        mode = 0o600 if secured is not None else 0o666
        with open(os.open(node.config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
            file.write("".join(f"{key}={value}\n" for key, value in lines.items()))
        written.append(node.config)
    return written


def _cluster_id(config: Path) -> str | None:
    from penstock.config.properties import parse_properties

    return parse_properties(config.read_text(encoding="utf-8")).get("cluster.id") if config.exists() else None


def new_cluster_id() -> str:
    """Return a random id as Kafka encodes it. A leading dash would be parsed as an option."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text
