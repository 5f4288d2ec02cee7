"""The control records of the metadata log and of checkpoints, in Kafka's encoding.

The key contains the type; the value is a flexible struct that repeats its version.
Uses `fields.py`. Refuses a key that is not a control key: Corruption.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct, error
from uuid import UUID

from penstock.metadata.voters import Voter, VoterEndpoint, VoterSet
from penstock.model.errors import Corruption
from penstock.model.ids import NodeId
from penstock.raft.messages import LeaderChange
from penstock.wire.fields import INT16, INT32, INT64, STRING, UINT16, UUID_, ZERO_UUID, Field, Layout, Reader, array
from penstock.wire.records import Record

LEADER_CHANGE = 2
SNAPSHOT_HEADER = 3
SNAPSHOT_FOOTER = 4
KRAFT_VERSION = 5
KRAFT_VOTERS = 6

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _KRaftVersion:
    version: int = 0
    kraft_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _VersionRange:
    min_supported_version: int = 0
    max_supported_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownVoter:
    voter_id: int
    voter_uuid: UUID
    endpoints: tuple[VoterEndpoint, ...]
    kraft_versions: _VersionRange = _VersionRange()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Voters:
    version: int = 0
    voters: tuple[_KnownVoter, ...]


_ENDPOINT = Layout(VoterEndpoint, 0, Field("name", STRING), Field("host", STRING), Field("port", UINT16))
_VERSION_RANGE = Layout(_VersionRange, 0, Field("min_supported_version", INT16), Field("max_supported_version", INT16))
_KNOWN_VOTER = Layout(
    _KnownVoter,
    0,
    Field("voter_id", INT32),
    Field("voter_uuid", UUID_),
    Field("endpoints", array(_ENDPOINT.kind())),
    Field("kraft_versions", _VERSION_RANGE.kind()),
)
_KRAFT_VERSION = Layout(_KRaftVersion, 0, Field("version", INT16), Field("kraft_version", INT16))
_KRAFT_VOTERS = Layout(_Voters, 0, Field("version", INT16), Field("voters", array(_KNOWN_VOTER.kind())))


def leader_change(change: LeaderChange, *, timestamp: int) -> Record:
    message = _LeaderChangeMessage(
        leader_id=change.leader,
        voters=tuple(_Voter(voter_id=voter) for voter in change.voters),
        granting_voters=tuple(_Voter(voter_id=voter) for voter in change.granting_voters),
    )
    return _record(LEADER_CHANGE, _LEADER_CHANGE, message, timestamp)


def snapshot_header(*, timestamp: int) -> Record:
    """Return the first record of a checkpoint; the timestamp is that of the last log record in it."""
    return _record(
        SNAPSHOT_HEADER, _SNAPSHOT_HEADER, _SnapshotHeader(last_contained_log_timestamp=timestamp), timestamp
    )


def snapshot_footer(*, timestamp: int) -> Record:
    return _record(SNAPSHOT_FOOTER, _SNAPSHOT_FOOTER, _SnapshotFooter(), timestamp)


def kraft_version(version: int, *, timestamp: int) -> Record:
    return _record(KRAFT_VERSION, _KRAFT_VERSION, _KRaftVersion(kraft_version=version), timestamp)


def voters(voter_set: VoterSet, *, timestamp: int) -> Record:
    known = tuple(
        _KnownVoter(voter_id=voter.id, voter_uuid=voter.directory_id or ZERO_UUID, endpoints=voter.endpoints)
        for voter in voter_set
    )
    return _record(KRAFT_VOTERS, _KRAFT_VOTERS, _Voters(voters=known), timestamp)


def read_voters(record: Record) -> VoterSet:
    """Return the voters of a KRaftVoters record."""
    message: _Voters = _KRAFT_VOTERS.read(Reader(record.value or b""))
    return tuple(
        Voter(
            id=NodeId(known.voter_id),
            directory_id=None if known.voter_uuid == ZERO_UUID else known.voter_uuid,
            endpoints=known.endpoints,
        )
        for known in message.voters
    )


def voters_in(records: Iterable[Record]) -> VoterSet | None:
    """Return the last set of voters in a control batch, None if it has none."""
    found = [record for record in records if control_type(record) == KRAFT_VOTERS]
    return read_voters(found[-1]) if found else None


def _record(control_type: int, layout: Layout, message: object, timestamp: int) -> Record:
    value = bytearray()
    layout.write(value, message)
    return Record(timestamp=timestamp, key=_KEY.pack(_KEY_VERSION, control_type), value=bytes(value))


def control_type(record: Record) -> int:
    """Return the type of a control record."""
    try:
        version, kind = _KEY.unpack_from(record.key or b"")
    except error as problem:
        raise Corruption(f"the control record at offset {record.offset} has no type") from problem
    if version < _KEY_VERSION:
        raise Corruption(f"the control record at offset {record.offset} has key version {version}")
    return int(kind)


def header_timestamp(record: Record) -> int:
    """Return the timestamp of the last log record that a checkpoint contains."""
    header: _SnapshotHeader = _SNAPSHOT_HEADER.read(Reader(record.value or b""))
    return header.last_contained_log_timestamp
