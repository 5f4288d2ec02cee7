"""What the command line configures: clusters, the address, permissions, masks and pipelines. Values only."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from penstock.actions.connection import Connection

DEFAULT_PORT: Final = 8080
CONTENTS: Final = "contents"
CHANGES: Final = "changes"


class Policy(NamedTuple):
    """What the console itself permits on a cluster; the cluster's ACLs decide further."""

    read_only_reason: str | None
    """Why nothing can be changed; None if it can."""
    contents: bool
    """Whether records can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    name: str
    connection: Connection
    """Without user and password if a login is required."""
    requires_login: bool = False


class PipelineSettings(NamedTuple):
    folder: Path
    storage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    clusters: Mapping[str, ClusterSettings]
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    host_names: frozenset[str] = frozenset()
    """Names in the Host header that are accepted besides addresses and localhost."""
    read_only: bool = False
    allow: frozenset[str] = frozenset()
    """What is permitted without a login on an address that others can reach: CONTENTS, CHANGES."""
    masks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """JSON paths to hide, by topic."""
    history: Path | None = None
    pipelines: tuple[PipelineSettings, ...] = ()

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def policy(self, cluster: ClusterSettings) -> Policy:
        is_exposed = not self.is_loopback and not cluster.requires_login
        reason = None
        if self.read_only:
            reason = "The console was started with --read-only."
        elif is_exposed and CHANGES not in self.allow:
            reason = f"The console listens on {self.host} without a login, so it is read-only."
        return Policy(reason, not is_exposed or CONTENTS in self.allow)
