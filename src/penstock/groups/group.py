"""The interface that every type of group implements, independent of its members' protocol.

The shard, offsets.py and admin.py use groups only through it. A check raises the Refusal to
answer the request with.
"""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from penstock.groups.records import GroupRecord, OffsetCommitValue

CommitCheck = Callable[[UUID, int], None]
"""Takes a topic id and a partition; raises if the member may not commit it."""


class Group(Protocol):
    id: str

    @property
    def type(self) -> str:
        """Return `Classic` or `Consumer`, as ListGroups spells it."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str:
        """Return the protocol type; empty for a group that only commits offsets."""
        ...

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members, including members that are still joining."""
        ...

    def commit_check(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        knows_epochs: bool = True,
        is_transactional: bool = False,
    ) -> CommitCheck | None:
        """Check the committer. The returned check, if any, must then be called for each partition."""
        ...

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def retention_start(self, committed: OffsetCommitValue) -> int | None:
        """Return the time at which the offset's retention begins, or None while it must be kept."""
        ...

    def tombstones(self) -> list[GroupRecord]:
        """Return the records that delete the group, without its offsets."""
        ...
