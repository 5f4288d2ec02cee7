"""Members of a share group: join, fetch from each leader in a share session, and acknowledge or stall.

A member accepts, releases, rejects or renews what it acquires, with a request of its own or with its next fetch, lets
locks expire, or closes its connections with locks held. Deliveries and acknowledgements go to the history;
checkers/shares.py compares them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from penstock.wire.api import ApiKey
from penstock_sim.client import Client, Link, Lost, Shared, Unavailable, seconds
from penstock_sim.history import FAIL, OK, Delivered, PartitionId, Settled

HEARTBEAT_S = 1.0
DRAINED_S = 6.0
"""Longer than locks last and a heartbeat takes."""
DRAIN_S_MAX = 150.0
"""How long draining a group may take without an accepted record: accepted records are final, so it has an end."""
RENEWED_AFTER = 0.6
"""The part of a lock's duration after which it is renewed."""
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
COORDINATOR_MOVED = frozenset({14, 15, 16})
UNKNOWN_MEMBER_ID = 25
NOT_HELD = 121
NO_SESSION = 122
VERSION = 2
LATE_S_MAX = 30.0
"""How late a request of an old connection may be read."""


class Held(NamedTuple):
    partition: PartitionId
    first: int
    last: int
    deliveries: int
    locked_at: float


class Session(NamedTuple):
    epoch: int
    partitions: frozenset[tuple[UUID, int]]
    link: Link


class Sharer(Client):
    def __init__(self, shared: Shared, name: str, *, group: str, topics: list[str], stalls: bool) -> None:
        super().__init__(shared, name)
        self.group = group
        self._topics = topics
        self._stalls = stalls
        self._member = f"{name}-{shared.seed}"[:36]
        self._epoch = 0
        self._assigned: dict[UUID, list[int]] = {}
        self._names: dict[UUID, str] = {}
        self._sessions: dict[tuple[str, int], Session] = {}
        self._old_links: list[Link] = []
        self._lost_openings: dict[tuple[str, int], float] = {}
        """When a request that opens a session last got no response."""
        self.holds = False
        """Keep what is acquired, without an acknowledgement."""
        self.held: dict[tuple[str, int], list[Held]] = {}
        self._unsent: dict[tuple[str, int], tuple[list[Held], int]] = {}
        """What the next fetch from a leader acknowledges, and how."""
        self._beat_due = 0.0
        self._busy_at = self._accepted_at = self.now
        self._accepts_all = False
        self.beat_at = 0.0

    async def run(self) -> None:
        while not self.stopping:
            try:
                if self.now >= self._beat_due and not await self._beat():
                    await self.backoff()
                    continue
                for address, partitions in sorted((await self._leaders()).items()):
                    await self._fetch(address, partitions)
            except (Lost, Unavailable):
                self._sessions.clear()
                self.topics.clear()
                self.forget_coordinator(0, self.group)
                self._beat_due = 0.0
            await self.backoff()
        if self.random.random() < 0.7:
            await self.leave()

    async def leave(self) -> bool:
        """Leave the group; return whether the coordinator has confirmed it, if only to a repeated request."""
        try:
            address = await self.coordinator(0, self.group)
            fields: dict[str, Any] = {"group_id": self.group, "member_id": self._member, "member_epoch": -1}
            reply = await self.ask(address, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **fields)
            return int(reply.error_code) in (0, UNKNOWN_MEMBER_ID)
        except (Lost, Unavailable):
            return False

    def disconnect(self) -> None:
        """Close all connections, which closes the share sessions."""
        for link in self._links.values():
            if link.connection is not None:
                link.connection.close()
        self._sessions.clear()

    async def step(self) -> None:
        """Send a heartbeat if one is due, and fetch from each leader once."""
        if self.now >= self._beat_due and not await self._beat():
            return
        for address, partitions in sorted((await self._leaders()).items()):
            await self._fetch(address, partitions)

    async def drain(self) -> bool:
        """Accept everything that is left; return whether nothing arrived for a while."""
        self._accepts_all = True
        self._accepted_at = self.now
        while self.now - self._accepted_at < DRAIN_S_MAX:
            try:
                if self.now >= self._beat_due and not await self._beat():
                    await self.backoff()
                    continue
                leaders = await self._leaders()
                for address, partitions in sorted(leaders.items()):
                    await self._fetch(address, partitions)
                fetched = frozenset[tuple[UUID, int]]().union(*leaders.values())
                every = {(view.topic_id, index) for view in self.topics.values() for index in view.leaders}
                if len(self.topics) < len(self._topics) or fetched != every:
                    # Members that have not left yet still have partitions.
                    self._busy_at = self.now
                if self.now - self._busy_at > DRAINED_S:
                    return True
            except (Lost, Unavailable):
                # A secured cluster closes connections regularly.
                self._sessions.clear()
                self.topics.clear()
                self.forget_coordinator(0, self.group)
                self._beat_due = 0.0
            await self.backoff()
        return False

    # -- membership --------------------------------------------------------------------------

    async def _beat(self) -> bool:
        """Send a heartbeat; return whether the member is in its group."""
        address = await self.coordinator(0, self.group)
        reply = await self.ask(
            address,
            ApiKey.SHARE_GROUP_HEARTBEAT,
            1,
            group_id=self.group,
            member_id=self._member,
            member_epoch=self._epoch,
            subscribed_topic_names=self._topics if self._epoch == 0 else None,
        )
        code = int(reply.error_code)
        if code:
            if code in COORDINATOR_MOVED:
                self.forget_coordinator(0, self.group)
            else:
                self._epoch = 0
            return False
        self._epoch = reply.member_epoch
        self._beat_due, self.beat_at = self.now + HEARTBEAT_S, self.now
        if reply.assignment is not None:
            self._assigned = {
                topic.topic_id: list(topic.partitions) for topic in reply.assignment.topic_partitions if topic.topic_id
            }
        return True

    async def _leaders(self) -> dict[tuple[str, int], frozenset[tuple[UUID, int]]]:
        """Return the assigned partitions by the address of their leader."""
        if not all(name in self.topics for name in self._topics):
            await self.refresh(*self._topics)
        self._names = {view.topic_id: name for name, view in self.topics.items()}
        found: dict[tuple[str, int], set[tuple[UUID, int]]] = {}
        for topic_id, indexes in self._assigned.items():
            name = self._names.get(topic_id)
            view = None if name is None else self.topics.get(name)
            for index in indexes if view is not None else ():
                leader = view.leaders.get(index, (-1, -1))[0] if view is not None else -1
                if view is not None and index not in view.leaders:
                    # The topic has grown.
                    self.topics.pop(str(name), None)
                if leader in self.addresses:
                    found.setdefault(self.addresses[leader], set()).add((topic_id, index))
        return {address: frozenset(partitions) for address, partitions in found.items()}

    # -- records -----------------------------------------------------------------------------

    async def _fetch(self, address: tuple[str, int], partitions: frozenset[tuple[UUID, int]]) -> None:
        link = await self.link_to(address)
        session = self._sessions.get(address)
        is_known = session is not None and session.partitions == partitions and session.link is link
        epoch = session.epoch if session is not None and is_known else 0
        began = self.now
        unsent, kind = self._unsent.pop(address, ([], ACCEPT))
        # A request that opens a session must not acknowledge anything.
        settled = self._settled(unsent, kind) if epoch else {}
        # Whatever the broker acquires for a request without a response counts as delivered.
        doubtful = [self._partition(*each) for each in partitions]
        self.history.fetches_in_doubt.update(doubtful)
        try:
            reply = await self.ask_on(
                link,
                address,
                ApiKey.SHARE_FETCH,
                VERSION,
                group_id=self.group,
                member_id=self._member,
                share_session_epoch=epoch,
                max_wait=seconds(0.3),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=self.random.choice((1, 5, 500)),
                batch_size=500,
                share_acquire_mode=self.random.choice((0, 1)),
                topics=_topics(partitions) if epoch == 0 else _acknowledging(settled),
                forgotten_topics_data=[],
            )
        except Exception:
            if not epoch:
                self._lost_openings[address] = self.now
            raise
        self.history.fetches_in_doubt.subtract(doubtful)
        self._close_old_links()
        if int(reply.error_code):
            # The broker may read a request of an old connection late. Then it opens a session that replaces this one.
            is_replaced = self.now - self._lost_openings.get(address, -LATE_S_MAX) < LATE_S_MAX
            if int(reply.error_code) == NO_SESSION and is_known and not link.lost_for_good and not is_replaced:
                self.complain(f"inv_79: {address[0]} has closed a share session whose connection is open")
            self._sessions.pop(address, None)
            self._busy_at = self.now
            return
        self._sessions[address] = Session(epoch + 1, partitions, link)
        held: list[Held] = []
        for topic in reply.responses:
            for part in topic.partitions:
                partition = self._partition(topic.topic_id, part.partition_index)
                self._take_outcome(settled.get(partition, ()), int(part.acknowledge_error_code))
                if int(part.error_code):
                    self.topics.clear()
                    self._busy_at = self.now
                held += self._take(part.acquired_records, partition, began, address)
        if held:
            self._busy_at = self.now
            if self.holds:
                self.held.setdefault(address, []).extend(held)
            else:
                await self._settle(address, held)
        if self._stalls and self.random.random() < 0.05:
            # Reconnect before the broker notices that the old connection is gone.
            self._old_links.append(link)
            self._links.pop(address, None)

    def _take(self, acquired: Any, partition: PartitionId, began: float, address: tuple[str, int]) -> list[Held]:
        """Note the records of a partition that a broker has delivered."""
        for each in acquired:
            count, times = each.delivery_count, (began, self.now)
            self.history.delivered.extend(
                Delivered(self.name, self.group, partition, offset, count, *times, broker=address[0])
                for offset in range(each.first_offset, each.last_offset + 1)
            )
        return [Held(partition, each.first_offset, each.last_offset, each.delivery_count, began) for each in acquired]

    def _close_old_links(self) -> None:
        for link in self._old_links:
            if link.connection is not None:
                link.connection.close()
        self._old_links.clear()

    def _partition(self, topic_id: UUID, index: int) -> PartitionId:
        return PartitionId(self._names.get(topic_id, "?"), topic_id.hex, index)

    async def _settle(self, address: tuple[str, int], held: list[Held]) -> None:
        """Acknowledge what was acquired, or do not."""
        if self._accepts_all:
            if await self.acknowledge(address, held, ACCEPT):
                self._accepted_at = self.now
            return
        chance = self.random.random()
        if self._stalls and chance < 0.1:
            await self.sleep(self.random.choice((0.5, 2.5)))
        if self._stalls and chance < 0.05:
            link = self._links.get(address)
            if link is not None and link.connection is not None:
                link.connection.close()
            self._sessions.pop(address, None)
            return
        if chance < 0.15:
            return
        kind = self.random.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW))
        if kind == RENEW:
            await self.sleep(RENEWED_AFTER * self.history.share_lock_s)
            held = await self.acknowledge(address, held, RENEW)
            await self.sleep(RENEWED_AFTER * self.history.share_lock_s)
            kind = ACCEPT
        elif self.random.random() < 0.1:
            # Names every record twice: nothing may happen.
            await self.acknowledge(address, held, ACCEPT, repeats=2)
        if held and address in self._sessions:
            if self.random.random() < 0.4:
                self._unsent[address] = held, kind
            else:
                await self.acknowledge(address, held, kind)

    async def acknowledge(
        self, address: tuple[str, int], held: list[Held], kind: int, *, repeats: int = 1
    ) -> list[Held]:
        """Acknowledge records; return those for which that succeeded, with their new lock."""
        epoch, partitions, link = self._sessions[address]
        by_partition = self._settled(held, kind, is_valid=repeats == 1)
        began = self.now
        reply = await self.ask_on(
            link,
            address,
            ApiKey.SHARE_ACKNOWLEDGE,
            VERSION,
            group_id=self.group,
            member_id=self._member,
            share_session_epoch=epoch,
            is_renew_ack=kind == RENEW,
            topics=_acknowledging(by_partition, repeats=repeats),
        )
        if int(reply.error_code):
            self._sessions.pop(address, None)
            return []
        self._sessions[address] = Session(epoch + 1, partitions, link)
        for topic in reply.responses:
            for part in topic.partitions:
                partition = self._partition(topic.topic_id, part.partition_index)
                self._take_outcome(by_partition.get(partition, ()), int(part.error_code))
        succeeded = {
            (entry.partition, entry.first)
            for entries in by_partition.values()
            for entry in entries
            if entry.outcome == OK
        }
        return [each._replace(locked_at=began) for each in held if (each.partition, each.first) in succeeded]

    def _settled(self, held: list[Held], kind: int, *, is_valid: bool = True) -> dict[PartitionId, list[Settled]]:
        """Return the acknowledgements of records, which are now in the history with an unknown outcome."""
        by_partition: dict[PartitionId, list[Settled]] = {}
        for each in held:
            entry = Settled(
                self.name,
                self.group,
                each.partition,
                each.first,
                each.last,
                kind,
                self.now,
                each.deliveries,
                each.locked_at,
                is_valid=is_valid,
            )
            self.history.settled.append(entry)
            by_partition.setdefault(entry.partition, []).append(entry)
        return by_partition

    def _take_outcome(self, entries: Iterable[Settled], code: int) -> None:
        for entry in entries:
            entry.ended, entry.code = self.now, code
            entry.outcome = OK if code == 0 else FAIL if code == NOT_HELD else entry.outcome


def _acknowledging(by_partition: dict[PartitionId, list[Settled]], *, repeats: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": UUID(partition.topic_id),
            "partitions": [
                {
                    "partition_index": partition.partition_index,
                    "acknowledgement_batches": [
                        {"first_offset": each.first, "last_offset": each.last, "acknowledge_types": [each.kind]}
                        for each in batch * repeats
                    ],
                }
            ],
        }
        for partition, batch in by_partition.items()
    ]


def _topics(partitions: frozenset[tuple[UUID, int]]) -> list[dict[str, Any]]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return [
        {
            "topic_id": topic_id,
            "partitions": [{"partition_index": index, "acknowledgement_batches": []} for index in indexes],
        }
        for topic_id, indexes in topics.items()
    ]
