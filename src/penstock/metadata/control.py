"""The control records of the metadata log and of checkpoints, in Kafka's bytes.

The key says the type; the value is a flexible struct that repeats its own version.
Uses `fields.py`. Refuses a key that is no control key: Corruption.
"""

from dataclasses import dataclass
from struct import Struct, error

from penstock.metadata.fields import INT16, INT32, INT64, Field, Layout, Reader, array
from penstock.model.errors import Corruption
from penstock.raft.messages import LeaderChange
from penstock.wire.records import Record

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4

_KEY = Struct(">hh")
_KEY_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voter:
    voter_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeaderChangeMessage:
    version: int = 0
    leader_id: int
    voters: tuple[_Voter, ...]
    granting_voters: tuple[_Voter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotHeader:
    version: int = 0
    last_contained_log_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotFooter:
    version: int = 0


_VOTERS = array(Layout(_Voter, 0, Field("voter_id", INT32)).kind())
_LEADER_CHANGE = Layout(
    _LeaderChangeMessage,
    0,
    Field("version", INT16),
    Field("leader_id", INT32),
    Field("voters", _VOTERS),
    Field("granting_voters", _VOTERS),
)
_SNAPSHOT_HEADER = Layout(_SnapshotHeader, 0, Field("version", INT16), Field("last_contained_log_timestamp", INT64))
_SNAPSHOT_FOOTER = Layout(_SnapshotFooter, 0, Field("version", INT16))


def leader_change(change: LeaderChange, *, timestamp: int) -> Record:
    message = _LeaderChangeMessage(
        leader_id=change.leader,
        voters=tuple(_Voter(voter_id=voter) for voter in change.voters),
        granting_voters=tuple(_Voter(voter_id=voter) for voter in change.granting_voters),
    )
    return _record(LEADER_CHANGE, _LEADER_CHANGE, message, timestamp)


def snapshot_header(*, timestamp: int) -> Record:
    """The first record of a checkpoint; the timestamp is that of the last log record in it."""
    return _record(
        SNAPSHOT_HEADER, _SNAPSHOT_HEADER, _SnapshotHeader(last_contained_log_timestamp=timestamp), timestamp
    )


def snapshot_footer(*, timestamp: int) -> Record:
    return _record(SNAPSHOT_FOOTER, _SNAPSHOT_FOOTER, _SnapshotFooter(), timestamp)


def _record(control_type: int, layout: Layout, message: object, timestamp: int) -> Record:
    value = bytearray()
    layout.write(value, message)
    return Record(timestamp=timestamp, key=_KEY.pack(_KEY_VERSION, control_type), value=bytes(value))


def control_type(record: Record) -> int:
    """Which kind of control record this is."""
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
    except error as problem:
        raise Corruption(f"the control record at offset {record.offset} has no type") from problem
    if version < _KEY_VERSION:
        raise Corruption(f"the control record at offset {record.offset} has key version {version}")
    return int(kind)


def header_timestamp(record: Record) -> int:
    """The time of the last log record that a checkpoint contains."""
    header: _SnapshotHeader = _SNAPSHOT_HEADER.read(Reader(record.value or b""))
    return header.last_contained_log_timestamp
