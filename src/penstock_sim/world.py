"""A run of one seed, from its plan to its verdict.

Safety phase: nodes, clients and faults. Healing phase: no more faults, everything must work again within a time limit.
Then clients stop, new consumers read everything back, possibly once more after a power loss of all nodes, and the
checkers examine the history. Nothing here is part of a node.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from penstock.client.interfaces import PeerUnavailable
from penstock.model.errors import Refusal
from penstock_sim import admin, authorized, constants, machines, secured, share_end, snapshots, tables, tokens
from penstock_sim.availability import Availability
from penstock_sim.certificates import CertificateFaults
from penstock_sim.checkers import check
from penstock_sim.checkers.tables import compacted_away
from penstock_sim.client import Client, Shared
from penstock_sim.consumers import Consumer, read_back
from penstock_sim.disk import Crashed
from penstock_sim.faults import Faults
from penstock_sim.history import History
from penstock_sim.host import DATA, PORT, Host
from penstock_sim.loop import Owner, SimLoop, Stuck
from penstock_sim.members import GroupConsumer, read_offsets
from penstock_sim.network import Hub, Weather
from penstock_sim.observer import Observer
from penstock_sim.plan import Plan, draw
from penstock_sim.producers import IdempotentProducer, PlainProducer
from penstock_sim.share_watch import ShareWatch
from penstock_sim.sharers import Sharer
from penstock_sim.timeline import Timeline
from penstock_sim.trace import Trace
from penstock_sim.transactors import Transactor

SUPERVISOR_S = 0.25
CATCH_UP_S_MAX = 60.0
STOP_S_MAX = 90.0


@dataclass(slots=True)
class Result:
    seed: int
    digest: str
    violations: list[str]
    faults: Counter[str]
    sometimes: Counter[str]
    simulated_s: float
    steps: int
    summary: str
    tails: dict[str, list[str]]


class _Complaints(logging.Handler):
    """A log handler that collects messages with a traceback: no unexpected exception may occur."""

    def __init__(self, loop: SimLoop, found: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._loop = loop
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not _is_crash(error) and self._loop.current.alive:
            self._found.append(f"inv_52: {self._loop.current.name}: {record.getMessage()}: {error!r}")


def _reserve(seed: int, name: str) -> int:
    """Return enough for the metadata written while a disk is full; rarely almost nothing."""
    return Random(f"{seed}:{name}:reserve").choice((40_000, 40_000, 40_000, 2_000))


def _is_crash(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, Crashed):
            return True
        error = error.__cause__ or error.__context__
    return False


class World:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        seed = str(plan.seed)
        self.loop = SimLoop(Random(f"{seed}:turns"))  # type: ignore[abstract]
        self.trace = Trace(lambda: self.loop.now)
        self.hub = Hub(self.loop, self.trace, Random(f"{seed}:net"))
        self.history = History()
        self.complaints: list[str] = []
        self.random = Random(f"{seed}:world")
        self.hosts = [self._host(index + 1) for index in range(plan.nodes)]
        self.hosts[plan.seed % len(self.hosts)].may_lose = True
        self.shared = Shared(
            self.loop, self.hub, self.history, [host.address for host in self.hosts], self.complaints, seed
        )
        if plan.secured:
            self.shared.dialer = secured.dialer
        self.clients: list[Client] = []
        self._working: list[asyncio.Task[Any]] = []
        self.observer = Observer(self.hosts, self.trace, self.complaints, min_isr_changes=plan.tunes)
        self.timeline = Timeline(self.hosts, lambda: self.loop.now)
        self.observer.on_published = self.timeline.published
        self.availability = Availability(self)
        self._back_at: dict[str, float] = {}
        self.rotten = self.observer.rotten
        self.halted = False
        self.partitions = [(topic.name, index) for topic in plan.topics for index in range(topic.partitions)]
        self.tables = [(topic.name, index) for topic in plan.tables for index in range(topic.partitions)]
        self.history.shares_may_repeat = plan.beyond
        self.history.share_limit = plan.share_limit
        self.history.shares_are_committed = plan.shares_are_committed
        self.history.shares_start_late = plan.share_reset == "latest"
        self.history.leader_changes = self.observer.leader_changes
        self.share_watch = ShareWatch(self.hosts, self.complaints, locks_max=share_end.LOCKS_MAX, is_lossy=plan.beyond)
        if plan.sharers:
            self.observer.on_check = self.share_watch.check
        self.history.tables = {topic.name: plan.tombstone_s for topic in plan.tables}

    def _host(self, node_id: int) -> Host:
        name = f"node{node_id}"
        chance = Random(f"{self.plan.seed}:{name}:journal")
        settings = {
            "node.id": str(node_id),
            "log.dirs": DATA,
            "cluster.id": "U2ltdWxhdGVkQ2x1c3RlcmE",
            "listeners": f"PLAINTEXT://{name}:{PORT}",
            **machines.node_options(self, node_id, name),
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "group.share.record.lock.duration.ms": "1500",
            "group.share.min.record.lock.duration.ms": "1000",
            "share.coordinator.snapshot.update.records.per.snapshot": str(chance.choice((0, 3, 20))),
            "share.coordinator.state.topic.prune.interval.ms": str(share_end.PRUNE_MS),
            "share.coordinator.cold.partition.snapshot.interval.ms": str(share_end.PRUNE_MS),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "100",
            "log.retention.check.interval.ms": "10000",
            "log.flush.offset.checkpoint.interval.ms": "7000",
            "log.segment.delete.delay.ms": "2000",
            # Journal files that are full after a few groups, or never; always used, for a few logs at a time, or never.
            "log.journal.bytes": str(chance.choice((0, 1500, 20_000, 8 << 20))),
            "log.journal.min.logs": str(chance.choice((0, 0, 2))),
            "log.reserve.bytes": str(_reserve(self.plan.seed, name)),
            # So few that logs are closed and opened again all the time, or enough for all of them.
            "log.open.files.max": str(Random(f"{self.plan.seed}:{name}:open files").choice((1, 3, 4096))),
            "replica.lag.time.max.ms": str(self.plan.lag_ms),
            "controller.quorum.voters": ",".join(
                f"{index}@node{index}:{PORT}" for index in range(1, self.plan.nodes // self.plan.cores + 1)
            ),
            "metadata.log.max.record.bytes.between.snapshots": str(self.random.choice((300, 2000, 20_000))),
            **self.plan.cleaning,
            **(secured.node_options(name, PORT, self.plan.nodes, self.plan.session_ms) if self.plan.secured else {}),
            **(tokens.OPTIONS if self.plan.secured else {}),
            **(authorized.OPTIONS if self.plan.authorized else {}),
        }
        host = Host(
            name=name,
            node_id=node_id,
            seed=str(self.plan.seed),
            loop=self.loop,
            hub=self.hub,
            trace=self.trace,
            settings=settings,
        )
        host.complaints = self.complaints
        host.disk.sync_s = self.plan.sync_s
        host.disk.open_s = self.plan.open_s
        if self.plan.clock_rates:
            host.clock_rate = self.random.choice((0.97, 1.0, 1.03))
            host.skew_ms = self.random.randrange(-5_000, 5_000)
        return host

    # -- the run ---------------------------------------------------------------------------

    def run(self) -> Result:
        logger = logging.getLogger("penstock")
        handler = _Complaints(self.loop, self.complaints)
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.ERROR)
        logger.propagate = False
        gc_was_on = gc.isenabled()
        gc.disable()
        try:
            with constants.changed(self.plan):
                self.loop.run(self._live())
        except Stuck as stuck:
            self.complaints.append(f"inv_57: the simulation is stuck: {stuck}")
        except Exception as fault:
            at = traceback.extract_tb(fault.__traceback__)[-1]
            self.complaints.append(f"inv_52: the simulator failed in {at.filename}:{at.lineno}: {fault!r}")
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]
            if gc_was_on:
                gc.enable()
        for owner, message, error in self.loop.errors:
            # An exception of a future that no task awaits, because its process has ended, is not a violation.
            if not _is_crash(error) and not isinstance(error, Refusal | PeerUnavailable):
                self.complaints.append(f"inv_52: {owner}: {message}: {error!r}")
        self.complaints.extend(self.availability.late_writes())
        violations = [*self.complaints, *(each for each in check(self.history) if not self._is_told_damage(each))]
        return Result(
            self.plan.seed,
            self.trace.digest,
            violations,
            self.trace.faults,
            self.trace.sometimes,
            self.loop.now,
            self.loop.steps,
            self.plan.summary(),
            {owner: self.trace.tail(owner) for owner in self.trace.owners()} if violations else {},
        )

    def _is_told_damage(self, violation: str) -> bool:
        """Return whether an unreplicated log that lost a marker to rot blocks its consumers, and reported it."""
        return violation.startswith("inv_10") and any(f" {name}: " in violation for name in self.rotten)

    async def _live(self) -> None:
        background = [
            asyncio.ensure_future(self._supervise()),
            asyncio.ensure_future(self.observer.watch()),
            asyncio.ensure_future(self.availability.watch()),
        ]
        for host in self.hosts:
            host.start()
        setup = Client(self.shared, "setup")
        topics = [*self.plan.topics, *self.plan.tables, *share_end.own_topics(self.plan)]
        if self.plan.sharers and not await self.run_as(setup, share_end.configure(setup, self.plan)):
            self.complaints.append("inv_57: a group could not be configured on a healthy cluster")
            return
        if not await self.run_as(setup, admin.create_topics(setup, topics, replicas=min(self.plan.nodes, 3))):
            self.complaints.append("inv_57: topics could not be created on a healthy cluster")
            return
        self._start_clients()
        faults = Faults(self).start()
        await asyncio.sleep(self.plan.safety_s)
        for fault in faults:
            fault.cancel()
        self._heal()
        await self._recover()
        await self._stop_clients()
        if not self.halted:
            if self.plan.sharers:
                await share_end.finish(self)
            if self.plan.cores > 1:
                await machines.finish(self)
            await self._look_back("reader")
            if self.plan.last_power_loss:
                for host in self.hosts:
                    self._back_at[host.name] = 0.0
                    host.lose_power()
                await self._all_up(30.0)
                await self._look_back("second-reader")
            self.complaints.extend(snapshots.check_derived_state(self.hosts, self.rotten))
            self.observer.compare_logs()
        for task in background:
            task.cancel()

    async def run_as(self, client: Client, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine as a client and return its result."""
        done = self.loop.create_future()

        async def run() -> None:
            result = await work
            self.loop.as_owner(self.loop.world, self.loop.settle, done, result)

        self.loop.spawn(client.owner, run())
        return await done

    # -- clients ---------------------------------------------------------------------------

    def _start_clients(self) -> None:
        plan, partitions, shared = self.plan, self.partitions, self.shared
        for index in range(plan.plain_producers):
            acks = self.random.choice((-1, -1, 1, 0))
            self.clients.append(
                PlainProducer(shared, f"plain{index}", partitions=partitions, acks=acks, pause_s=plan.pause_s)
            )
        for index in range(plan.idempotent_producers):
            in_flight = self.random.choice((1, 2, 5))
            self.clients.append(
                IdempotentProducer(
                    shared, f"idempotent{index}", partitions=partitions, pause_s=plan.pause_s, in_flight=in_flight
                )
            )
        for index in range(plan.consumers):
            self.clients.append(
                Consumer(shared, f"consumer{index}", partitions=partitions, committed_only=bool(index % 2))
            )
        for index in range(plan.members):
            self.clients.append(
                GroupConsumer(
                    shared,
                    f"member{index}",
                    group="readers",
                    partitions=partitions,
                    session_s=self.random.choice((6.0, 10.0)),
                    commit_s=self.random.choice((0.3, 1.5)),
                    dawdles=plan.dawdles,
                )
            )
        for index in range(plan.sharers):
            self.clients.append(
                Sharer(
                    shared,
                    f"sharer{index}",
                    group="queue",
                    topics=share_end.subscription(plan),
                    stalls=plan.dawdles,
                )
            )
        if plan.sharers:
            self.clients.append(share_end.Flooder(shared, "flooder", partitions=partitions, grows=plan.grows))
        self._start_transactors()
        self.clients.extend(admin.clients(shared, plan, partitions))
        self.clients.extend(tables.clients(shared, plan, Random(f"{plan.seed}:table-clients")))
        if plan.secured:
            self.clients.extend(authorized.clients(shared, plan, self.timeline))
        if plan.cores > 1:
            self.clients.append(machines.Mover(shared, "mover"))
        for client in self.clients:
            self._working.append(self.loop.spawn(client.owner, client.run()))  # type: ignore[attr-defined]

    async def _stop_clients(self) -> None:
        """Let all clients finish their requests: no writes may follow while consumers read back."""
        self.shared.stopping = True
        deadline = self.loop.now + STOP_S_MAX
        while not all(task.done() for task in self._working):
            if self.loop.now > deadline:
                busy = [
                    client.name for client, task in zip(self.clients, self._working, strict=True) if not task.done()
                ]
                self.complaints.append(f"inv_59: requests of {', '.join(busy)} do not complete")
                break
            await asyncio.sleep(0.5)
        for client, task in zip(self.clients, self._working, strict=True):
            if task.done() and not task.cancelled() and task.exception() is not None:
                self.complaints.append(f"client {client.name} failed: {task.exception()!r}")

    def _start_transactors(self) -> None:
        # Trimmed inputs would be lost to transactors that have not read them yet.
        inputs = [] if self.plan.trims or self.random.random() < 0.4 else self.partitions[:1]
        outputs = self.partitions[len(inputs) :] or self.partitions
        for index in range(self.plan.transactors):
            for copy in range(2 if self.plan.zombies else 1):
                self.clients.append(
                    Transactor(
                        self.shared,
                        f"transactor{index}.{copy}",
                        transactional_id=f"id{index}",
                        group=f"processors{index}",
                        inputs=inputs if index == 0 and outputs != inputs else [],
                        outputs=outputs,
                        timeout_s=self.random.choice((3.0, 15.0)),
                        abort_chance=self.random.choice((0.0, 0.3)),
                        pause_s=self.plan.pause_s,
                    )
                )

    # -- restarts of nodes -----------------------------------------------------------------

    def down_for(self, host: Host, seconds: float) -> None:
        """Restart a node that goes down now after this many seconds."""
        self._back_at[host.name] = self.loop.now + seconds

    async def _supervise(self) -> None:
        while True:
            await asyncio.sleep(SUPERVISOR_S)
            for host in self.hosts:
                if host.state == "down" and self._back_at.get(host.name, 0.0) <= self.loop.now:
                    self._back_at[host.name] = self.loop.now + 1.0
                    host.start()
                elif host.state in ("up", "starting") and host.is_broken:
                    # Its disk has failed permanently: an operator restarts it later.
                    self.trace.sometimes["data folder offline"] += 1
                    self.down_for(host, 1.0 + self.random.random() * 3)
                    host.kill()

    def _heal(self) -> None:
        self.trace.event("world", "heal")
        self.hub.weather = Weather()
        self.hub.certificates = CertificateFaults(ended_at=self.loop.now)
        self.hub.set_blocked(set())
        for host in self.hosts:
            disk = host.disk
            disk.crash_at, disk.capacity, disk.syncs_fail, disk.sync_s = None, None, False, self.plan.sync_s
            disk.failing.clear()
            self._back_at[host.name] = 0.0
            host.owner.not_before = 0.0
        for client in self.clients:
            client.owner.not_before = 0.0

    async def _all_up(self, within_s: float) -> bool:
        deadline = self.loop.now + within_s
        while not all(host.is_up for host in self.hosts):
            if self.loop.now > deadline:
                problems = ", ".join(f"{host.name} is {host.state}: {host.last_problem}" for host in self.hosts)
                if not self.plan.beyond:
                    self.complaints.append(f"inv_58: not all nodes are up again: {problems}")
                self.halted = True
                return False
            await asyncio.sleep(0.5)
        return True

    async def _recover(self) -> None:
        """Check that everything works again: acknowledgements for all producers, all records for all consumers."""
        healed_at = self.loop.now
        if not await self._all_up(30.0):
            return
        deadline = healed_at + self.plan.heal_s
        waiting = self._unserved(healed_at)
        while waiting and self.loop.now < deadline:
            await asyncio.sleep(1.0)
            waiting = self._unserved(healed_at)
        if waiting and not self.plan.beyond:
            self.complaints.append(
                f"inv_57: {self.plan.heal_s:.0f} s after the last fault these clients are not served: "
                f"{', '.join(waiting)}"
            )
        unequal, copying_s = self.observer.unequal(), 0.0
        while unequal and self.loop.now < deadline + (copying_s := max(copying_s, self.observer.copying_s)):
            await asyncio.sleep(1.0)
            unequal = self.observer.unequal()
        if unequal and not self.plan.beyond:
            self.complaints.append(f"inv_58: {self.plan.heal_s:.0f} s after the last fault {'; '.join(unequal[:4])}")

    def _unserved(self, since: float) -> list[str]:
        waiting = []
        for client in self.clients:
            if isinstance(client, PlainProducer | IdempotentProducer) and getattr(client, "_acks", -1) != 0:
                served = client.acked_at > since
            elif isinstance(client, GroupConsumer):
                served = client.settled
            elif isinstance(client, Sharer):
                served = client.beat_at > since
            elif isinstance(client, Transactor):
                served = self._ended_at(client.transactional_id) > since
            else:
                served = True
            if not served:
                waiting.append(client.name)
        return waiting

    def _ended_at(self, transactional_id: str) -> float:
        """Return when a client with this id last ended a transaction, or had no input for one."""
        same = (each for each in self.clients if isinstance(each, Transactor))
        return max(max(each.ended_at, each.idle_at) for each in same if each.transactional_id == transactional_id)

    # -- the end ---------------------------------------------------------------------------

    async def _look_back(self, name: str) -> None:
        """Read everything with new clients, once all transactions are finished."""
        deadline = self.loop.now + CATCH_UP_S_MAX
        for topic, partition in (*self.partitions, *self.tables, *share_end.partitions_of_jobs(self.history)):
            reader = Client(self.shared, f"{name}.{topic}-{partition}")
            view = await self.run_as(reader, read_back(self.shared, reader.name, topic, partition))
            while not view.code and view.last_stable_offset < view.end and self.loop.now < deadline:
                await asyncio.sleep(2.0)
                reader = Client(self.shared, f"{name}.{topic}-{partition}.{self.loop.now:.0f}")
                view = await self.run_as(reader, read_back(self.shared, reader.name, topic, partition))
            if view.code and not (self.plan.beyond and f"{topic}-{partition}" in self.rotten):
                self.complaints.append(f"inv_57: {topic}-{partition} cannot be read: error {view.code}")
            self.history.views.append(view)
            if topic in self.history.tables and compacted_away(self.history, view):
                self.trace.sometimes["records compacted away"] += 1
        for group in sorted({commit.group for commit in self.history.commits}):
            reader_of_group = Consumer(self.shared, f"{name}.{group}", partitions=self.partitions, committed_only=True)
            if not await self.run_as(reader_of_group, read_offsets(reader_of_group, group, self.partitions)):
                self.complaints.append(f"inv_57: the offsets of {group} cannot be fetched")


def run_seed(
    seed: int, *, nodes: int | None = None, prepare: Callable[[World], None] | None = None, plan: Plan | None = None
) -> Result:
    """Run one seed. `prepare` may change the world before it starts."""
    world = World(plan or draw(seed, nodes=nodes))
    if prepare is not None:
        prepare(world)
    return world.run()


__all__ = ["Owner", "Result", "World", "run_seed"]
