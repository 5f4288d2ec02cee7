"""Share sessions: a member names its partitions once, then only what changes.

A session is identified by group and member. It belongs to the principal that opened it, other principals do not find
it, and to the connection that used it last. Its epoch rises with each request. Pure; leading.py releases the locks of
sessions that are closed.
Refuses: ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached, InvalidRequest.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicIdPartition
from penstock.security.principal import Principal
from penstock.shares.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
PARTITION_COUNT_MAX: Final = 10_000
FETCHED_MAX: Final = 500
"""Partitions that one request fetches: each takes some microseconds. Those of larger sessions take turns."""


class SessionKey(NamedTuple):
    group: str
    member: str


class ShareSession:
    __slots__ = ("added", "connection", "epoch", "key", "owner", "partitions")

    def __init__(
        self, key: SessionKey, connection: object, partitions: Iterable[TopicIdPartition], owner: Principal | None
    ) -> None:
        self.key = key
        self.connection = connection
        self.owner = owner
        self.epoch = 1
        self.partitions: dict[TopicIdPartition, None] = dict.fromkeys(partitions)
        self.added: Iterable[TopicIdPartition] = ()
        """The partitions that were added last: most requests name the same ones again."""

    def rotated(self) -> list[TopicIdPartition]:
        """Return the partitions to fetch in an order that changes with every request, so that each has its turn."""
        partitions = list(self.partitions)
        count = len(partitions)
        if count <= 1:
            return partitions
        if count > FETCHED_MAX:
            first = self.epoch * FETCHED_MAX % count
            return (partitions + partitions[:FETCHED_MAX])[first : first + FETCHED_MAX]
        first = self.epoch % count
        return partitions[first:] + partitions[:first]

    def wait_ms(self, max_wait_ms: int) -> int:
        """Return how long a request waits for records: its part of the time if the partitions take turns."""
        count = len(self.partitions)
        return max_wait_ms if count <= FETCHED_MAX else max_wait_ms * FETCHED_MAX // count


class ShareSessions:
    def __init__(self, *, count_max: int) -> None:
        self.count_max = count_max
        """Replaced when the configuration changes."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[object, dict[SessionKey, None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[SessionKey]:
        """Return the group and member of each session."""
        return iter(self._sessions)

    @property
    def partition_count(self) -> int:
        """Return the number of partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def has_group(self, group: str) -> bool:
        """Return whether a member of the group has a session."""
        return any(key.group == group for key in self._sessions)

    def get(self, key: SessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        *,
        added: Sequence[TopicIdPartition],
        forgotten: Iterable[TopicIdPartition],
        has_acknowledgements: bool,
        connection: object,
        owner: Principal | None = None,
    ) -> ShareSession:
        """Return the session of a ShareFetch: a new one, one that continues, or one that is about to be closed."""
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise InvalidRequest
            return self._open(key, added, connection, owner)
        session = self._continued(key, epoch, connection, owner)
        if epoch != FINAL_EPOCH:
            if added is not session.added:
                _check_count(session.partitions, added)
                session.partitions.update(dict.fromkeys(added))
                session.added = added
            for partition in forgotten:
                session.partitions.pop(partition, None)
                session.added = ()
        return session

    def acknowledge(
        self, key: SessionKey, epoch: int, *, connection: object, owner: Principal | None = None
    ) -> ShareSession:
        """Return the session of a ShareAcknowledge."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch
        return self._continued(key, epoch, connection, owner)

    def close(self, session: ShareSession) -> bool:
        """Remove the session; return False if another one has replaced it."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        self._leave_connection(session)
        return True

    def connection_lost(self, connection: object) -> list[ShareSession]:
        """Remove and return the sessions that belong to a connection."""
        lost = [self._sessions.pop(key) for key in self._by_connection.pop(connection, {})]
        return lost

    def _open(
        self,
        key: SessionKey,
        partitions: Iterable[TopicIdPartition],
        connection: object,
        owner: Principal | None,
    ) -> ShareSession:
        before = self._sessions.get(key)
        if before is not None:
            if before.owner != owner:
                raise ShareSessionNotFound
            self.close(before)
        if len(self._sessions) >= self.count_max:
            raise ShareSessionLimitReached
        session = self._sessions[key] = ShareSession(key, connection, partitions, owner)
        self._by_connection.setdefault(connection, {})[key] = None
        return session

    def _continued(self, key: SessionKey, epoch: int, connection: object, owner: Principal | None) -> ShareSession:
        session = self._sessions.get(key)
        if session is None or session.owner != owner:
            raise ShareSessionNotFound
        if epoch == FINAL_EPOCH:
            return session
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch
        session.epoch = epoch + 1 if epoch < EPOCH_MAX else 1
        if session.connection != connection:
            self._leave_connection(session)
            session.connection = connection
            self._by_connection.setdefault(connection, {})[key] = None
        return session

    def _leave_connection(self, session: ShareSession) -> None:
        keys = self._by_connection.get(session.connection)
        if keys is not None:
            keys.pop(session.key, None)
            if not keys:
                del self._by_connection[session.connection]


def _check_count(present: Collection[TopicIdPartition], added: Collection[TopicIdPartition]) -> None:
    """Raise InvalidRequest if a session would have too many partitions."""
    if len(present) + len(added) > PARTITION_COUNT_MAX and len({*present, *added}) > PARTITION_COUNT_MAX:
        raise InvalidRequest(f"A share session cannot have more than {PARTITION_COUNT_MAX} partitions.")
