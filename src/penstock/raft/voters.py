"""The set of voters, according to the log: the newest set in it applies, committed or not.

Without one the configured voters apply. Follows the log when it grows, is truncated, or restarts after a snapshot.
Refuses nothing.
"""

from penstock.model.ids import NodeId, Offset

Voters = frozenset[NodeId]


class VoterHistory:
    __slots__ = ("_base", "_changes", "current")

    def __init__(self, configured: Voters) -> None:
        """Begin with the voters before the log's first record."""
        self._base = configured
        self._changes: list[tuple[Offset, Voters]] = []
        self.current = configured
        """The current voters."""

    @property
    def changed_at(self) -> Offset:
        """Return the offset of the newest set in the log; -1 if there is none."""
        return self._changes[-1][0] if self._changes else Offset(-1)

    def may_include(self, node: NodeId, *, committed_end: Offset) -> bool:
        """Return whether the node is a voter, or was one before a change that is not known to be committed.

        The others may not have that change: its log is longer than theirs, so they may be unable to elect another.
        """
        if node in self.current:
            return True
        before = self._changes[-2][1] if len(self._changes) > 1 else self._base
        return self.changed_at >= committed_end and node in before

    def append(self, offset: Offset, voters: Voters) -> None:
        assert offset > self.changed_at, "a log grows only at its end"
        self._changes.append((offset, voters))
        self.current = voters

    def truncate_to(self, offset: Offset) -> None:
        while self._changes and self._changes[-1][0] >= offset:
            self._changes.pop()
        self.current = self._changes[-1][1] if self._changes else self._base

    def start_at(self, offset: Offset) -> None:
        """Drop the sets before the offset, except the one that applies there."""
        while self._changes and self._changes[0][0] < offset:
            self._base = self._changes.pop(0)[1]

    def replaced(self, voters: Voters | None) -> None:
        """Restart after a snapshot, which may contain the voters."""
        if voters is not None:
            self._base = voters
        self._changes.clear()
        self.current = self._base
