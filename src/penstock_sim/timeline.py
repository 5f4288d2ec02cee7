"""The ACLs and delegation tokens of every node, and when they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.metadata.image import Image
from penstock_sim.host import Host


class Timeline:
    def __init__(self, hosts: Sequence[Host], now: Callable[[], float]) -> None:
        self._now = now
        self._hosts = {host.name: host for host in hosts}
        self._changes: dict[str, list[tuple[float, int, Image]]] = {host.name: [] for host in hosts}

    def published(self, host: Host, image: Image) -> None:
        """Note a node's new image, if its ACLs or tokens have changed."""
        changes = self._changes[host.name]
        if changes:
            _, starts, last = changes[-1]
            if starts == host.starts and last.acls == image.acls and last.tokens == image.tokens:
                return
        changes.append((self._now(), host.starts, image))

    @property
    def hosts(self) -> Iterable[str]:
        return self._hosts

    def host(self, name: str) -> Host:
        return self._hosts[name]

    def starts(self, name: str) -> int:
        return self._hosts[name].starts

    def between(self, name: str, begin: float, end: float) -> list[Image]:
        """Return the images that a node had in an interval: the one at its beginning, and all later ones."""
        found: list[Image] = []
        for when, starts, image in self._changes[name]:
            if starts != self._hosts[name].starts:
                continue
            if when <= begin:
                found = [image]
            elif when <= end:
                found.append(image)
        return found
