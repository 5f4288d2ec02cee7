"""Owners of partitions in a group, as reported by the members' rebalance callbacks.

Members run in threads and share one `Ownership`. It is a fault if a partition is assigned to a member while another
one still owns it, unless that member was expelled: the coordinator may reassign its partitions before it notices.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Ownership:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self._left: set[str] = set()
        self._overlaps: list[tuple[str, str]] = []
        """The previous owner, and a description of the fault."""
        self._faults: list[str] = []

    def given(self, name: str, partitions: Iterable[int]) -> None:
        with self.lock:
            if name in self._left:
                return
            for partition in partitions:
                other = self.owners.setdefault(partition, name)
                if other != name:
                    self._overlaps.append((other, f"partition {partition} was given to {name} while {other} had it"))
                self.owners[partition] = name

    def taken(self, name: str, partitions: Iterable[int]) -> None:
        with self.lock:
            for partition in partitions:
                if self.owners.get(partition) == name:
                    del self.owners[partition]

    def lost(self, name: str, partitions: Iterable[int]) -> None:
        """Record that a member was expelled."""
        self.taken(name, partitions)
        with self.lock:
            self._overlaps = [(other, text) for other, text in self._overlaps if other != name]

    def left(self, name: str) -> None:
        """Record that a member has stopped reading and is about to leave the group.

        A client may still finish a rebalance while it stops, report the new assignment, and leave without reporting a
        revocation. No client reads those partitions, so they count as free.
        """
        with self.lock:
            self._left.add(name)
            self.owners = {partition: owner for partition, owner in self.owners.items() if owner != name}

    def fault(self, text: str) -> None:
        with self.lock:
            self._faults.append(text)

    def forget_faults(self) -> None:
        with self.lock:
            self._faults.clear()
            self._overlaps.clear()

    @property
    def faults(self) -> list[str]:
        with self.lock:
            return [*self._faults, *(text for _, text in self._overlaps)]
