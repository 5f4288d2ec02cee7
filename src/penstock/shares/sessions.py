"""Share sessions: a member names its partitions once, then only what changes.

A session is identified by group and member. It belongs to the principal that opened it, other principals do not find
it, and to the connection that used it last. Its epoch rises with each request. Pure; leading.py releases the locks of
sessions that are closed.
Refuses: ShareSessionNotFound, InvalidShareSessionEpoch, ShareSessionLimitReached, InvalidRequest.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from penstock.model.errors import InvalidRequest
from penstock.security.principal import Principal
from penstock.shares.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    group: str
    member: str


class FetchedPartition(NamedTuple):
    topic_id: UUID
    partition: int


class ShareSession:
    __slots__ = ("connection", "epoch", "key", "owner", "partitions")

    def __init__(
        self, key: SessionKey, connection: object, partitions: Iterable[FetchedPartition], owner: Principal | None
    ) -> None:
        self.key = key
        self.connection = connection
        self.owner = owner
        self.epoch = 1
        self.partitions: dict[FetchedPartition, None] = dict.fromkeys(partitions)

    def rotated(self) -> list[FetchedPartition]:
        """Return the partitions in an order that changes with every request, so that each has its turn."""
        partitions = list(self.partitions)
        if not partitions:
            return partitions
        first = self.epoch % len(partitions)
        return partitions[first:] + partitions[:first]


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
        added: Iterable[FetchedPartition],
        forgotten: Iterable[FetchedPartition],
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
            session.partitions.update(dict.fromkeys(added))
            for partition in forgotten:
                session.partitions.pop(partition, None)
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
        partitions: Iterable[FetchedPartition],
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
