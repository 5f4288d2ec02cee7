"""What deciding gives back: the records that make it so, and the answer to give once they are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.metadata.records import MetadataRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ControllerDecision(Generic[T]):
    """Nothing has happened yet: the reply may leave only after the records are committed."""

    records: "Sequence[MetadataRecord]"
    reply: T
