"""The result of a decision: records to commit, and the reply to send when they are committed."""

from collections.abc import Sequence
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
