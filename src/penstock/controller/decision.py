"""The result of a decision: records to commit, and the reply to send when they are committed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.metadata.records import MetadataRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerDecision(Generic[T]):
    """A decision that has had no effect yet: the reply may be sent only after the records are committed."""

    records: "Sequence[MetadataRecord]"
    reply: T
    is_atomic: bool = True
    """Whether the records are committed all or none. Otherwise a crash may leave only the first ones, in order."""

    def parts(self, size: int) -> "Iterator[Sequence[MetadataRecord]]":
        """Yield the records that are committed together: all of them, or up to `size` at a time."""
        if self.is_atomic:
            yield self.records
            return
        for start in range(0, len(self.records), size):
            yield self.records[start : start + size]
