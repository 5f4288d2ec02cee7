"""What every type of group can be asked, whichever protocol its members speak.

The shard, offsets.py and admin.py know groups only by this. A check raises the Refusal that
the request is answered with.
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
        """`Classic` or `Consumer`, as ListGroups spells it."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def protocol_type(self) -> str:
        """Empty for a group that only commits offsets."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, nor any on their way in."""
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
        """Check who commits. What is given back, if anything, is to be asked for each partition too."""
        ...

    def check_fetch(self, *, member_id: str | None, member_epoch: int) -> None: ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def retention_start(self, committed: OffsetCommitValue) -> int | None:
        """The time from which the offset's retention counts; None while it must be kept."""
        ...

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group, without its offsets."""
        ...
