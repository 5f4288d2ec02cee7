"""The share group of a seed: its settings, a producer of large batches, and what is checked when the faults are over.

A new member accepts what is left. In some seeds it then keeps a record, leaves, and the group's offset is altered:
its late acknowledgement must be fenced, and the next member must get everything again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.wire.api import ApiKey
from penstock.wire.batch import iter_batches
from penstock.wire.records import decode_batch
from penstock_sim.admin import alter_configs
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.consumers import EARLIEST, list_offset
from penstock_sim.history import OK, Altered, History, PartitionId, Send, Settled
from penstock_sim.plan import Plan, TopicPlan
from penstock_sim.producers import PRODUCE_VERSION, batch_of, produce_fields, result_of
from penstock_sim.sharers import ACCEPT, REJECT, Sharer

if TYPE_CHECKING:
    from penstock_sim.world import World

GROUP: Final = "queue"
GROUP_CONFIG: Final = 32
LETTERS: Final = "dlq.queue"
JOBS: Final = "jobs"
LETTER_PREFIX: Final = b"__dlq.errors."
LOCKS_MAX: Final = 100
BATCH_RECORDS: Final = 60
INVALID_PARTITIONS: Final = 37
"""The partition exists: an earlier request succeeded, whose response was lost."""
ATTEMPTS_MAX: Final = 60
WAIT_S: Final = 90.0
PRUNE_MS: Final = 1500


def own_topics(plan: Plan) -> list[TopicPlan]:
    """Return the topics that only the share group uses."""
    letters = [TopicPlan(LETTERS, 1)] if plan.sharers and plan.dead_letters else []
    return [*letters, *([TopicPlan(JOBS, 1)] if plan.sharers and plan.grows else [])]


def subscription(plan: Plan) -> list[str]:
    """Return the topics of the share group."""
    return [*(topic.name for topic in plan.topics), *([JOBS] if plan.grows else [])]


def partitions_of_jobs(history: History) -> list[tuple[str, int]]:
    """Return the partitions of the topic that grows, as far as they were used."""
    return sorted({(send.partition.topic, send.partition.partition_index) for send in history.sends
                   if send.partition.topic == JOBS})  # fmt: skip


async def configure(client: Client, plan: Plan) -> bool:
    """Set the options of the group. Every node that knows its topics later knows them too."""
    options = {
        "share.auto.offset.reset": plan.share_reset,
        "share.delivery.count.limit": str(plan.share_limit),
        "share.partition.max.record.locks": str(LOCKS_MAX),
        "share.isolation.level": "read_committed" if plan.shares_are_committed else "read_uncommitted",
        **({"errors.deadletterqueue.topic.name": LETTERS} if plan.dead_letters else {}),
    }
    for _ in range(ATTEMPTS_MAX):
        try:
            if await alter_configs(client, GROUP_CONFIG, GROUP, options):
                return True
        except (Lost, Unavailable):
            pass
        await client.backoff()
    return False


class Flooder(Client):
    """A producer of batches so large that a few of them fill the window of a share partition."""

    def __init__(self, shared: Shared, name: str, *, partitions: Sequence[tuple[str, int]], grows: bool) -> None:
        super().__init__(shared, name)
        self._partitions = [*partitions, *([(JOBS, 0)] if grows else [])]
        self._grows = grows
        self._count = 0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(self.random.random() * 3)
            if self._grows:
                await self._grow()
            topic, partition = self.random.choice(self._partitions)
            for _ in range(self.random.choice((1, 4))):
                await self.produce(topic, partition, BATCH_RECORDS)

    async def _grow(self) -> None:
        """Add a partition to the topic of jobs once the share group has read it, and write to it immediately."""
        if not any(each.partition.topic == JOBS for each in self.history.delivered):
            return
        try:
            reply = await self.ask(
                self.random.choice(self.shared.bootstrap),
                ApiKey.CREATE_PARTITIONS,
                3,
                topics=[{"name": JOBS, "count": 2, "assignments": None}],
                timeout=seconds(5),
                validate_only=False,
            )
            if int(reply.results[0].error_code) not in (0, INVALID_PARTITIONS):
                return
            self.forget(JOBS)
            _, _, partition = await self.leader_of(JOBS, 1)
        except (Lost, Unavailable):
            self.forget(JOBS)
            return
        self._grows = False
        self.history.grown.add(partition)
        self._partitions.append((JOBS, 1))
        await self.produce(JOBS, 1, BATCH_RECORDS)

    async def produce(self, topic: str, partition: int, size: int) -> bool:
        try:
            address, _, partition_id = await self.leader_of(topic, partition)
            values = tuple(f"{self.name}.{self._count + index}".encode() for index in range(size))
            self._count += size
            send = Send(self.name, partition_id, values, -1, self.now, attempts=1)
            self.history.sends.append(send)
            reply = await self.ask(
                address, ApiKey.PRODUCE, PRODUCE_VERSION, **produce_fields(partition_id, batch_of(send), acks=-1)
            )
            send.code, send.offset = result_of(reply)
            send.outcome = OK if send.code == 0 else send.outcome
            if send.code:
                self.forget(topic)
        except (Lost, Unavailable):
            self.forget(topic)
            return False
        return send.code == 0


async def finish(world: World) -> None:
    """Let a new member accept what is left, check the nodes, and alter offsets if the plan says so."""
    drainer = _member(world, "drainer")
    history = world.history
    history.shares_drained = await world.run_as(drainer, drainer.drain())
    if world.plan.beyond:
        return
    if not history.shares_drained:
        world.complaints.append("inv_79: a share group does not become empty")
        return
    if world.plan.dead_letters:
        await _check_letters(world, drainer)
    await _check_lag(world, drainer)
    world.share_watch.compare(prunes=False)
    if world.plan.alters:
        await _alter(world, drainer)


def _member(world: World, name: str) -> Sharer:
    return Sharer(world.shared, name, group=GROUP, topics=subscription(world.plan), stalls=False)


async def _check_lag(world: World, drainer: Sharer) -> None:
    """Check that the start offsets reach the ends of the logs."""
    deadline = world.loop.now + WAIT_S
    while (lags := _lags(world)) and world.loop.now < deadline:
        await world.run_as(drainer, _idle(drainer))
    if lags:
        world.complaints.append(f"inv_79: everything is finished, but the lag is {lags}")


def _lags(world: World) -> dict[str, int]:
    lags = {}
    for host in world.hosts:
        for led in host.node.context.shares.leader if host.is_up and host.node is not None else ():
            if led.flight is not None and led.is_current(led.partition):
                lag = led.partition.high_watermark - led.flight.start - led.flight.finished
                if lag:
                    lags[f"{led.partition.topic}-{led.key.partition}"] = lag
    return lags


# -- dead letters --------------------------------------------------------------------------------


async def _check_letters(world: World, drainer: Sharer) -> None:
    """Check that rejected and archived records have their dead-letter records, which may take a while."""
    deadline = world.loop.now + WAIT_S
    while (missing := _without_letters(world)) and world.loop.now < deadline:
        await world.run_as(drainer, _idle(drainer))
    if missing:
        world.complaints.append(f"inv_80: records without a dead-letter record: {sorted(missing)[:5]}")


async def _idle(drainer: Sharer) -> None:
    try:
        await drainer.step()
    except (Lost, Unavailable):
        drainer.topics.clear()
    await drainer.sleep(1.0)


def _without_letters(world: World) -> set[tuple[str, int, int]]:
    names = {view.topic_id.hex: name for client in world.clients for name, view in client.topics.items()}
    accepted = _accepted_at(world)
    expected = {
        place
        for entry in world.history.settled
        if entry.kind == REJECT and entry.outcome == OK
        for place in _places(entry)
        # A late acknowledgement of records that another member has finished is answered without an error.
        if accepted.get(place, entry.began) >= entry.began
    }
    for model in world.share_watch.models.values():
        for key, offset in model.archived:
            if (name := names.get(key.topic_id.hex)) is not None:
                expected.add((name, key.partition, offset))
    starts = _log_starts(world)
    return {each for each in expected - _letters(world) if each[2] >= starts.get(each[:2], 0)}


def _accepted_at(world: World) -> dict[tuple[str, int, int], float]:
    """Return when each record was first accepted."""
    found: dict[tuple[str, int, int], float] = {}
    for entry in world.history.settled:
        if entry.kind == ACCEPT and entry.outcome == OK:
            for place in _places(entry):
                found[place] = min(found.get(place, entry.ended), entry.ended)
    return found


def _places(entry: Settled) -> Iterator[tuple[str, int, int]]:
    for offset in range(entry.first, entry.last + 1):
        yield entry.partition.topic, entry.partition.partition_index, offset


def _log_starts(world: World) -> dict[tuple[str, int], int]:
    """Return the start of each log: records below it may be gone before their dead-letter record is written."""
    return {
        (str(partition.topic), partition.index): partition.log.start_offset
        for host in world.hosts
        if host.is_up and host.node is not None
        for partition in host.node.context.replicas.all()
        if partition.is_leader
    }


def _letters(world: World) -> set[tuple[str, int, int]]:
    """Return the sources of all dead-letter records."""
    found = set()
    for host in world.hosts:
        node = host.node
        topic = node.context.replicas.by_name.get(LETTERS.encode()) if host.is_up and node is not None else None
        partition = None if topic is None else topic.partitions.get(0)
        if partition is None or not partition.is_leader:
            continue
        offset = partition.log.start_offset
        while offset < partition.high_watermark:
            read = partition.read(offset, max_bytes=1 << 20, committed_only=False, at_least_one=True)
            if read is None:
                break
            for batch in iter_batches(read.file.read(read.size, read.position)):
                for record in decode_batch(batch):
                    headers = {bytes(name): bytes(value or b"") for name, value in record.headers}
                    about = [headers[LETTER_PREFIX + name] for name in (b"topic", b"partition", b"offset")]
                    found.add((about[0].decode(), int(about[1]), int(about[2])))
                    offset = record.offset + 1
    return found


# -- altered and deleted offsets -----------------------------------------------------------------


async def _alter(world: World, drainer: Sharer) -> None:
    topic, index = world.random.choice(world.partitions)
    writer = Flooder(world.shared, "last-writer", partitions=[(topic, index)], grows=False)
    drainer.holds = True
    deadline = world.loop.now + WAIT_S
    while not await world.run_as(writer, writer.produce(topic, index, 1)) and world.loop.now < deadline:
        await writer.sleep(0.5)
    while not drainer.held and world.loop.now < deadline:
        await world.run_as(drainer, _idle(drainer))
    is_gone = False
    while drainer.held and not (is_gone := await world.run_as(drainer, drainer.leave())) and world.loop.now < deadline:
        await drainer.sleep(0.5)
    if not is_gone:
        return
    admin = Client(world.shared, "share-admin")
    altered = await world.run_as(admin, _alter_to_start(admin, topic, index))
    if altered is None:
        world.complaints.append("inv_57: the offsets of a share group without members cannot be altered")
        return
    late = await world.run_as(drainer, _acknowledge_late(drainer, altered.partition))
    if late:
        world.complaints.append("inv_77: an acknowledgement of an earlier state epoch was accepted")
    drainer.disconnect()
    second = _member(world, altered.reader)
    if not await world.run_as(second, second.drain()):
        world.complaints.append("inv_79: a share group does not become empty after its offset was altered")
        return
    world.history.altered.append(altered)
    await world.run_as(second, second.leave())
    second.disconnect()
    if await world.run_as(admin, _delete_offsets(admin, [topic])):
        await admin.sleep(6 * PRUNE_MS / 1000)
        world.share_watch.compare(prunes=True)


async def _acknowledge_late(drainer: Sharer, altered: PartitionId) -> bool:
    """Accept the record that is held since before the offset was altered; return whether that succeeded."""
    try:
        for address, held in drainer.held.items():
            own = [each for each in held if each.partition == altered]
            if own and await drainer.acknowledge(address, own, ACCEPT):
                return True
    except (Lost, Unavailable, KeyError):
        pass
    return False


async def _alter_to_start(admin: Client, topic: str, index: int) -> Altered | None:
    deadline = admin.now + WAIT_S
    while admin.now < deadline:
        try:
            _, _, partition = await admin.leader_of(topic, index)
            start = await list_offset(admin, topic, index, EARLIEST, committed_only=False)
            began = admin.now
            reply = await _ask_coordinator(
                admin,
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                topics=[{"topic_name": topic, "partitions": [{"partition_index": index, "start_offset": start}]}],
            )
            if not int(reply.error_code) and not int(reply.responses[0].partitions[0].error_code):
                return Altered(partition, began, admin.now, "second-drainer")
        except (Lost, Unavailable):
            admin.topics.clear()
        admin.forget_coordinator(0, GROUP)
        await admin.sleep(1.0)
    return None


async def _delete_offsets(admin: Client, topics: list[str]) -> bool:
    for _ in range(ATTEMPTS_MAX):
        try:
            reply = await _ask_coordinator(
                admin, ApiKey.DELETE_SHARE_GROUP_OFFSETS, topics=[{"topic_name": name} for name in topics]
            )
            if not int(reply.error_code) and not any(int(each.error_code) for each in reply.responses):
                return True
        except (Lost, Unavailable):
            pass
        admin.forget_coordinator(0, GROUP)
        await admin.sleep(1.0)
    return False


async def _ask_coordinator(admin: Client, api_key: int, **values: Any) -> Any:
    address = await admin.coordinator(0, GROUP)
    return await admin.ask(address, api_key, 0, group_id=GROUP, **values)
