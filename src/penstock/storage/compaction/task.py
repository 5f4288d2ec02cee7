"""The messages between the event loop and a compaction worker, encoded as lines of JSON."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from penstock.storage.producer_state import EndedTransaction


@dataclass(frozen=True, slots=True)
class Extent:
    """The base offset and size of a closed segment."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One pass over one log."""

    folder: str
    segments: tuple[Extent, ...]
    # The end offset of the last segment of the pass.
    bound: int
    first_dirty: int
    now_ms: int
    # Whether `now_ms` may be behind the real time, because the retention clock ignores a jump for now.
    now_lags: bool
    delete_retention_ms: int
    segment_bytes: int
    index_interval: int
    index_size_max: int
    map_memory: int
    map_load_factor: float
    bytes_per_second: float
    # Aborted transactions that overlap the segments, by first offset.
    aborted: tuple[EndedTransaction, ...] = ()
    # The last data offset (-1 for none) and the epoch of each known producer.
    producers: dict[int, tuple[int, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, line: bytes) -> "Task":
        fields: dict[str, Any] = json.loads(line)
        fields["segments"] = tuple(Extent(**each) for each in fields["segments"])
        fields["aborted"] = tuple(EndedTransaction(*each) for each in fields["aborted"])
        fields["producers"] = {int(each): tuple(last) for each, last in fields["producers"].items()}
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedGroup:
    """A complete new segment in `.cleaned` files, and the segments that it replaces."""

    base_offset: int
    replaced: tuple[int, ...]
    size: int
    # Count and checksum of the entries of its transaction index.
    txn_entries: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of a pass: everything below `clean_end` is clean."""

    clean_end: int
    bytes_read: int = 0
    bytes_written: int = 0
    records_dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The failure of a pass. `errno` is 0 if the cause is damage, not the disk."""

    why: str
    errno: int = 0


# The replies to a group.
RESUME: Final = b"resume"
CANCEL: Final = b"cancel"
# Used as errno if the worker process died.
WORKER_DIED: Final = -1
WorkerMessage = CleanedGroup | Finished | Failed
_KINDS: dict[str, type[CleanedGroup] | type[Finished] | type[Failed]] = {
    each.__name__: each for each in (CleanedGroup, Finished, Failed)
}


def encode_message(message: WorkerMessage) -> bytes:
    return json.dumps({"kind": type(message).__name__, **asdict(message)}, separators=(",", ":")).encode()


def decode_message(line: bytes) -> WorkerMessage:
    fields: dict[str, Any] = json.loads(line)
    kind: Any = _KINDS[fields.pop("kind")]
    message: WorkerMessage = kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )
    return message
