"""Who may vote, as the log says: the newest set of voters in it counts, committed or not.

Without one the configured voters count. Follows the log when it grows, is cut, or begins anew behind a snapshot.
Refuses nothing.
"""

from penstock.model.ids import NodeId, Offset

Voters = frozenset[NodeId]


class VoterHistory:
    __slots__ = ("_base", "_changes", "present")

    def __init__(self, configured: Voters) -> None:
        """Begin with the voters that counted before the log's first record."""
        self._base = configured
        self._changes: list[tuple[Offset, Voters]] = []
        self.present = configured
        """The voters that count now."""

    @property
    def changed_at(self) -> Offset:
        """Where the newest set stands in the log; -1 if it does not."""
        return self._changes[-1][0] if self._changes else Offset(-1)

    def append(self, offset: Offset, voters: Voters) -> None:
        assert offset > self.changed_at, "a log grows at its end"
        self._changes.append((offset, voters))
        self.present = voters

    def truncate_to(self, offset: Offset) -> None:
        while self._changes and self._changes[-1][0] >= offset:
            self._changes.pop()
        self.present = self._changes[-1][1] if self._changes else self._base

    def start_at(self, offset: Offset) -> None:
        """Forget where the sets before the offset stood, not the one that counted there."""
        while self._changes and self._changes[0][0] < offset:
            self._base = self._changes.pop(0)[1]

    def replaced(self, voters: Voters | None) -> None:
        """The log begins anew behind a snapshot, which may name the voters."""
        if voters is not None:
            self._base = voters
        self._changes.clear()
        self.present = self._base
