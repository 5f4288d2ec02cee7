"""The share partitions that this node leads: the records in flight of each group, and the sessions of its members.

Reads the state of a share partition from the share coordinator when its first fetch arrives, and writes every outcome
there. A read and its acquisition are one synchronous step, so that no two fetches can acquire the same record. Calls
go to led_partition.py, sessions.py and state_client.py. Refuses: what led_partition.py refuses, NotLeaderOrFollower.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from uuid import UUID

from penstock.metadata.delta import Delta
from penstock.metadata.image import BROKER, GROUP, Image
from penstock.model.errors import NotLeaderOrFollower
from penstock.model.ids import TopicIdPartition
from penstock.ports.clock import Clock
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas
from penstock.replication.waiting import Deadlines
from penstock.scheduling.scheduler import Pace
from penstock.shares.counters import ShareCounters
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.letters import LetterWriter
from penstock.shares.sessions import SessionKey, ShareSession, ShareSessions
from penstock.shares.settings import ShareSettings
from penstock.shares.state_client import ShareStateClient
from penstock.shares.states import SharePartitionKey


class ShareLeader:
    def __init__(
        self,
        *,
        replicas: Replicas,
        clock: Clock,
        pace: Pace,
        state: ShareStateClient,
        settings_of: Callable[[str], ShareSettings],
        session_count_max: Callable[[], int],
        letters: LetterWriter | None = None,
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._pace = pace
        self._state = state
        self._settings_of = settings_of
        self._session_count_max = session_count_max
        self._letters = letters
        self.counters = ShareCounters()
        self.sessions = ShareSessions(count_max=session_count_max())
        self._led: dict[tuple[str, TopicIdPartition], LedSharePartition] = {}
        self.deadlines = Deadlines(clock)
        """The deadlines of fetches that wait for records."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(list(self._led.values()))

    def settings_of(self, group: str) -> ShareSettings:
        return self._settings_of(group)

    # -- partitions ------------------------------------------------------------------------

    def open(self, group: str, partition: TopicIdPartition) -> LedSharePartition:
        """Return a share partition, which loads its state if it is new; raise unless this node is the leader."""
        led = self.find(group, partition)
        if led is not None:
            return led
        hosted = self._partition(partition)
        if hosted is None or not hosted.is_leader:
            raise NotLeaderOrFollower
        outdated = self._led.get((group, partition))
        if outdated is not None:
            self._drop(outdated)
        led = self._led[group, partition] = LedSharePartition(
            SharePartitionKey(group, UUID(bytes=partition.topic_id), partition.partition),
            hosted,
            clock=self._clock,
            pace=self._pace,
            state=self._state,
            settings_of=self._settings_of,
            letters=self._letters,
            counters=self.counters,
        )
        led.on_closed = self._drop
        return led

    def find(self, group: str, partition: TopicIdPartition) -> LedSharePartition | None:
        """Return a share partition that is loaded or loading."""
        led = self._led.get((group, partition))
        return led if led is not None and led.is_current(self._partition(partition)) else None

    def _partition(self, partition: TopicIdPartition) -> Partition | None:
        topic = self._replicas.by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.partition)

    def _drop(self, led: LedSharePartition) -> None:
        where = led.key.group, led.topic_id_partition
        if self._led.get(where) is led:
            del self._led[where]
        led.close()

    # -- sessions --------------------------------------------------------------------------

    def check_sessions(self) -> ShareSessions:
        """Return the sessions, with the current limit."""
        self.sessions.count_max = self._session_count_max()
        return self.sessions

    def is_open(self, session: ShareSession) -> bool:
        return self.sessions.get(session.key) is session

    def close_session(self, session: ShareSession) -> None:
        """Close a session and release the locks of its member."""
        if self.sessions.close(session):
            self._release(session.key)

    def connection_lost(self, connection: object) -> None:
        for session in self.sessions.connection_lost(connection):
            self._release(session.key)

    def _release(self, key: SessionKey) -> None:
        is_last = not self.sessions.has_group(key.group)
        for led in self:
            if led.key.group != key.group:
                continue
            write = led.release(key.member)
            if is_last:
                # The next session reads the state again: it may be altered while the group is not in use.
                self._run(self._forget(led, write))

    async def _forget(self, led: LedSharePartition, write: "asyncio.Future[bool] | None") -> None:
        if write is not None:
            await write
        await led.letters_written()
        if not self.sessions.has_group(led.key.group):
            self._drop(led)

    def _run(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the image -------------------------------------------------------------------------

    def image_changed(self, delta: Delta, image: Image) -> None:
        if not self._led:
            return
        if any(resource.type in (BROKER, GROUP) for resource in delta.configs_changed):
            for led in self:
                led.settings_changed()
        changed = delta.partitions_changed.keys() | {topic.id for topic in delta.topics_deleted}
        for led in self:
            if led.key.topic_id in changed and not led.is_current(self._partition(led.topic_id_partition)):
                self._drop(led)

    def close(self) -> None:
        self.deadlines.stop()
        for task in self._tasks:
            task.cancel()
        for led in self:
            led.stop()
        self._led.clear()
