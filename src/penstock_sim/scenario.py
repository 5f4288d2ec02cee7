"""Scenarios for the simulator, one step per line: `tests/scenarios/*.txt`.

`cluster` comes first and starts the nodes; each line runs when the previous one is complete. After `->` comes the
expected result. A scenario with another result raises `Departed` with the line. docs/internals/simulator.md lists the
steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from penstock.metadata.image import Image
from penstock.model import errors
from penstock.model.ids import NO_NODE, PartitionIndex, TopicName
from penstock.wire.api import ApiKey
from penstock_sim import admin
from penstock_sim.checkers import check
from penstock_sim.client import STALE_LEADER, Client, Lost, Unavailable
from penstock_sim.consumers import read_back
from penstock_sim.history import FAIL, OK, PartitionId, Send
from penstock_sim.host import DATA, Host, HostDisk
from penstock_sim.plan import Plan, TopicPlan
from penstock_sim.producers import NEVER_WRITTEN, PRODUCE_VERSION, batch_of, produce_fields, result_of
from penstock_sim.world import World

PATIENCE_S = 60.0
PRODUCE_S_MAX = 30.0
BROKEN_S = 0.02
PASSING = (7, 19, 20, 56)
"""Errors that clients retry: too few replicas, before or after the append; a timeout; a disk without space."""
CODES: dict[int, str] = {
    each.code: name
    for name, each in vars(errors).items()
    if isinstance(each, type) and issubclass(each, errors.Refusal) and each is not errors.Refusal
}


class Departed(AssertionError):
    """A step of the scenario had another result."""


def run_file(path: Path) -> None:
    run(path.read_text(), seed=path.stem)


def run(text: str, *, seed: str = "story") -> None:
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    Story([line for line in lines if line], seed).play()


class Story(World):
    def __init__(self, lines: list[str], seed: str) -> None:
        words = lines[0].split()
        assert words[0] == "cluster", "a scenario starts with its cluster"
        self._options = _options(words[1:])
        plan = Plan(sum(seed.encode()), nodes=int(self._options.get("brokers", "3")))
        name = self._options.get("topic", "orders")
        plan.topics = [TopicPlan(name, int(self._options.get("partitions", "1")))]
        if "min_isr" in self._options:
            plan.topics[0].configs["min.insync.replicas"] = self._options["min_isr"]
        if "segment_bytes" in self._options:
            plan.topics[0].configs["internal.segment.bytes"] = self._options["segment_bytes"]
        super().__init__(plan)
        self._lines = lines[1:]
        self._client = Client(self.shared, "teller")
        self._values = 0
        self._done = False

    def play(self) -> None:
        result = self.run()
        if result.violations or not self._done:
            raise Departed("\n".join(result.violations) or "the scenario did not reach its end")

    async def _live(self) -> None:
        background = [
            asyncio.ensure_future(self.observer.watch()),
            asyncio.ensure_future(self.availability.watch()),
            asyncio.ensure_future(self._end_broken()),
        ]
        for host in self.hosts:
            host.start()
        replicas = int(self._options.get("replicas", str(min(3, self.plan.nodes))))
        await self._until(self._all_serve, "every node serves")
        # In the order of their ids, so that a scenario knows the leaders: 1 leads partition 0.
        making = admin.create_topics(
            self._client, self.plan.topics, replicas=replicas, in_order=range(1, self.plan.nodes + 1)
        )
        if not await self.run_as(self._client, making):
            raise Departed("the topic could not be created")
        for line in self._lines:
            step, _, wanted = (part.strip() for part in line.partition("->"))
            words = step.split()
            handler: Callable[..., Coroutine[Any, Any, str]] = getattr(self, f"do_{words[0].replace('-', '_')}")
            came = await handler(*words[1:])
            if wanted and came != wanted:
                raise Departed(f"{line}: the result was '{came}'")
        self._done = True
        for task in background:
            task.cancel()

    async def _end_broken(self) -> None:
        """End a process whose disk has failed, as `penstock start` does."""
        while True:
            await asyncio.sleep(BROKEN_S)
            for host in self.hosts:
                if host.is_up and host.is_broken:
                    host.kill()

    def _image(self) -> Image | None:
        """Return the image of the active controller."""
        for host in self.hosts:
            if host.is_up and host.node is not None and host.node.context.quorum.is_active:
                return host.node.context.quorum.image
        return None

    def _all_serve(self) -> bool:
        image = self._image()
        return image is not None and sum(not each.fenced for each in image.brokers.values()) == self.plan.nodes

    def _host_of(self, word: str) -> Host:
        return self.hosts[int(word) - 1]

    # -- steps: nodes ----------------------------------------------------------------------

    async def do_kill(self, *nodes: str) -> str:
        for node in nodes:
            self._host_of(node).kill()
        return "ok"

    async def do_power_off(self, *nodes: str) -> str:
        for node in nodes:
            self._host_of(node).lose_power(kept=0.0)
        return "ok"

    async def do_stop(self, *nodes: str) -> str:
        for node in nodes:
            await self._host_of(node).stop()
        return "ok"

    async def do_start(self, *nodes: str) -> str:
        for node in nodes:
            self._host_of(node).disk.syncs_fail = False
            self._host_of(node).start()
        return await self._until(lambda: all(self._host_of(node).is_up for node in nodes), "they are up")

    async def do_pause(self, node: str, seconds: str) -> str:
        self.loop.pause(self._host_of(node).owner, float(seconds))
        return "ok"

    async def do_cut_off(self, *nodes: str) -> str:
        """Block all traffic between these nodes and the others, except that of clients."""
        cut = {self._host_of(node).name for node in nodes}
        names = [host.name for host in self.hosts]
        self.hub.set_blocked({(a, b) for a in names for b in names if (a in cut) != (b in cut)})
        return "ok"

    async def do_heal(self) -> str:
        self.hub.set_blocked(set())
        return "ok"

    def _losing(self, node: str, partition_name: str) -> HostDisk:
        """Return the disk of a node that is about to lose data of a partition."""
        host = self._host_of(node)
        host.may_lose = True
        self.observer.lost.add(partition_name)
        return host.disk

    async def do_rot(self, node: str, partition_name: str) -> str:
        """Flip a bit in the first batch of a partition on a stopped node."""
        disk = self._losing(node, partition_name)
        disk.flip(
            next(
                path for path in disk.files() if path.startswith(f"{DATA}/{partition_name}/") and path.endswith(".log")
            ),
            70,
        )
        return "ok"

    async def do_fill(self, *nodes: str) -> str:
        """Fill the disks of these nodes."""
        for node in nodes:
            disk = self._host_of(node).disk
            disk.capacity = disk.used()
        return "ok"

    async def do_free(self, *nodes: str) -> str:
        for node in nodes:
            self._host_of(node).disk.capacity = None
        return "ok"

    async def do_lose(self, node: str, partition_name: str, *segments: str) -> str:
        """Remove the directory of a partition on a stopped node, or closed segments, counted from 1."""
        disk = self._losing(node, partition_name)
        logs = [path for path in disk.files() if path.startswith(f"{DATA}/{partition_name}/") and path.endswith(".log")]
        for segment in segments:
            disk.lose(logs[int(segment) - 1])
        if not segments:
            disk.lose(f"{DATA}/{partition_name}")
        return "ok"

    async def do_make_unreadable(self, node: str, partition_name: str, segment: str, size: str = "") -> str:
        """Make a stopped node's segment unreadable from byte 70 on; without `size` it cannot be opened."""
        disk = self._losing(node, partition_name)
        logs = [path for path in disk.files() if path.startswith(f"{DATA}/{partition_name}/") and path.endswith(".log")]
        path = logs[-1] if segment == "last" else logs[int(segment) - 1]
        start, end = (70, 70 + int(size)) if size else (-1, 1 << 30)
        disk.make_unreadable(path, start, end, lasting=True)
        return "ok"

    async def do_fail_syncs(self, node: str) -> str:
        """Make the syncs of a node fail until it is restarted."""
        self._host_of(node).disk.syncs_fail = True
        return "ok"

    async def do_wait(self, seconds: str) -> str:
        await asyncio.sleep(float(seconds))
        return "ok"

    # -- steps: clients --------------------------------------------------------------------

    async def do_produce(self, partition_name: str, *words: str) -> str:
        """Write records one by one; the first that is not acknowledged determines the result."""
        options = _options(list(words))
        topic, _, index = partition_name.rpartition("-")
        acks = {"all": -1, "1": 1, "0": 0}[options.get("acks", "all")]
        for _ in range(int(options.get("count", "1"))):
            if "at" in options:
                producing = self._produce_at(options["at"], topic, int(index), acks)
            else:
                producing = self._produce(topic, int(index), acks)
            began = self.loop.now
            outcome: str = await self.run_as(self._client, producing)
            if self.loop.now - began > float(options.get("within", PRODUCE_S_MAX + PATIENCE_S)):
                return f"late {outcome}"
            if outcome != "ok":
                return outcome
        return "ok"

    async def _produce(self, topic: str, index: int, acks: int) -> str:
        """Retry as clients do, up to a time limit; return the last result."""
        deadline = self.loop.now + PRODUCE_S_MAX
        answered = "no answer"
        while self.loop.now < deadline:
            try:
                address, _, partition_name = await self._client.leader_of(topic, index)
                code = await self._send(address, partition_name, acks)
                if code == 0:
                    return "ok"
                answered = f"refused {CODES.get(code, code)}"
                if code not in STALE_LEADER and code not in PASSING:
                    return answered
            except (Lost, Unavailable):
                pass
            self._client.topics.clear()
            await self._client.backoff()
        return answered

    async def _produce_at(self, node: str, topic: str, index: int, acks: int) -> str:
        """Send to one node once, regardless of the metadata."""
        _, _, partition_name = await self._client.leader_of(topic, index)
        try:
            code = await self._send(self.shared.bootstrap[int(node) - 1], partition_name, acks)
        except (Lost, Unavailable):
            return "no answer"
        return f"refused {CODES.get(code, code)}" if code else "ok"

    async def _send(self, address: tuple[str, int], partition_name: PartitionId, acks: int) -> int:
        self._values += 1
        send = Send("teller", partition_name, (b"value.%d" % self._values,), acks, self.loop.now, attempts=1)
        self.history.sends.append(send)
        fields = produce_fields(partition_name, batch_of(send), acks=acks)
        code, offset = result_of(await self._client.ask(address, ApiKey.PRODUCE, PRODUCE_VERSION, **fields))
        send.ended, send.code = self.loop.now, code
        if code == 0:
            send.outcome, send.offset = OK, offset
        elif code in NEVER_WRITTEN:
            send.outcome = FAIL
        return code

    async def do_read(self, partition_name: str) -> str:
        """Read a partition from start to end; the result is the number of records."""
        topic, _, index = partition_name.rpartition("-")
        reader = Client(self.shared, f"reader.{self.loop.now:.0f}")
        view = await self.run_as(reader, read_back(self.shared, reader.name, topic, int(index)))
        return f"refused {CODES.get(view.code, view.code)}" if view.code else f"{len(view.committed)} records"

    # -- steps: conditions -----------------------------------------------------------------

    async def do_until(self, what: str, partition_name: str, sign: str, *values: str) -> str:
        """Wait: `until isr orders-0 = 1 2`, `until leader orders-0 != 1`, `until leader orders-0 = none`."""
        topic, _, index = partition_name.rpartition("-")
        wanted = {NO_NODE if value == "none" else int(value) for value in values}

        def holds() -> bool:
            image = self._image()
            state = None if image is None else image.partition(TopicName(topic), PartitionIndex(int(index)))
            if state is None:
                return False
            found = set(state.isr) if what == "isr" else {int(state.leader)}
            return (found == wanted) == (sign == "=") and (NO_NODE not in found or NO_NODE in wanted)

        return await self._until(holds, f"{what} of {partition_name} {sign} {' '.join(values)}")

    async def _until(self, holds: Callable[[], bool], what: str) -> str:
        deadline = self.loop.now + PATIENCE_S
        while not holds():
            if self.loop.now > deadline:
                raise Departed(f"not true after {PATIENCE_S:.0f} s: {what}")
            await asyncio.sleep(0.05)
        return "ok"

    async def do_check(self, *what: str) -> str:
        """`logs-agree`: all replicas are in sync and equal; `acked-survive`: everything acknowledged is read back."""
        if "logs-agree" in what:
            await self._until(lambda: not self.observer.unequal(), "all replicas are in sync and equal")
            self.observer.compare_logs()
        if "acked-survive" in what:
            await self._look_back(f"reader{self.loop.now:.0f}")
            self.complaints.extend(check(self.history))
        return "ok"


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)
