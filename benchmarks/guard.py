"""A guard of the hot path: `python -m benchmarks.guard` fails if a request needs 15 % more bytecode than recorded.

Counts the bytecode instructions that the broker's own code runs for each of some requests: one node of the simulator
answers them, so that the figures are the same on every machine and under any load. They include the session, the
dispatcher, the handler and the log, and neither the simulator nor C code. They differ between versions of Python, so
`guard.json` has the figures of each; `--record` replaces those of the running version. `make bench` measures time.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final
from uuid import UUID

import penstock
from penstock.wire.api import ApiKey
from penstock.wire.records import Record, encode_batch
from penstock_sim import admin
from penstock_sim.client import Client, seconds
from penstock_sim.consumers import FETCH_VERSION, fetch_fields
from penstock_sim.host import Host
from penstock_sim.loop import SimLoop
from penstock_sim.plan import Plan, TopicPlan
from penstock_sim.producers import PRODUCE_VERSION, produce_fields
from penstock_sim.world import World

RECORDED: Final = Path(__file__).with_name("guard.json")
GROWTH_MAX: Final = 1.15
WARM_UP, COUNT = 20, 100
TOPIC, GROUP, SHARE_GROUP, MEMBER = "orders", "billing", "workers", "worker"
SHARE_BATCH = 10

Address = tuple[str, int]


class Instructions:
    """Counts the bytecode instructions that a host runs in the package `penstock` while this is entered."""

    def __init__(self, host: Host, loop: SimLoop) -> None:
        self.count = 0
        self._host = host
        self._loop = loop
        self._folder = str(Path(penstock.__file__).parent) + "/"

    def __enter__(self) -> Instructions:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        # The simulated client uses the package, too.
        if self._loop.current is not self._host.owner or not frame.f_code.co_filename.startswith(self._folder):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._stepped

    def _stepped(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        if event == "opcode":
            self.count += 1
        return self._stepped


class Measured(World):
    """One node without faults, and the figures of its requests."""

    def __init__(self) -> None:
        plan = Plan(1, nodes=1)
        plan.topics = [TopicPlan(TOPIC, 1)]
        super().__init__(plan)
        self.figures: dict[str, float] = {}
        self._client = Client(self.shared, "client")

    async def _live(self) -> None:
        self.hosts[0].start()
        if not await self.run_as(self._client, admin.create_topics(self._client, self.plan.topics, replicas=1)):
            raise AssertionError("the topic could not be created")
        await self.run_as(self._client, self._measure())

    async def _measure(self) -> None:
        client = self._client
        address, epoch, partition = await client.leader_of(TOPIC, 0)
        coordinator = await client.coordinator(0, GROUP)
        batch = bytes(encode_batch([Record(timestamp=1, value=b"v" * 100)]))
        await self._count(
            "produce 100 B", address, ApiKey.PRODUCE, PRODUCE_VERSION, produce_fields(partition, batch, acks=1)
        )
        fetch = fetch_fields(partition, 0, epoch=epoch, committed_only=False, wait_s=0)
        await self._count("fetch from offset 0", address, ApiKey.FETCH, FETCH_VERSION, fetch)
        offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        commit = {"group_id": GROUP, "topics": [{"name": TOPIC, "partitions": [offset]}]}
        await self._count("commit an offset", coordinator, ApiKey.OFFSET_COMMIT, 9, commit)
        await self._count_share_fetches(address, await client.coordinator(0, SHARE_GROUP), partition)

    async def _count_share_fetches(self, address: Address, coordinator: Address, partition: Any) -> None:
        """Count fetches of one record each, which accept the record before it."""
        topic_id = await self._join(coordinator)
        offset = await self._share_fetch(address, topic_id, 0, None)
        records = [Record(timestamp=1, value=b"v" * 100) for _ in range(SHARE_BATCH)]
        for _ in range(0, WARM_UP + COUNT, SHARE_BATCH):
            produced = produce_fields(partition, bytes(encode_batch(records)), acks=1)
            await self._client.ask(address, ApiKey.PRODUCE, PRODUCE_VERSION, **produced)
        for number in range(WARM_UP):
            offset = await self._share_fetch(address, topic_id, number + 1, offset)
        with Instructions(self.hosts[0], self.loop) as run:
            for number in range(WARM_UP, WARM_UP + COUNT):
                offset = await self._share_fetch(address, topic_id, number + 1, offset)
        assert offset is not None, "every fetch has got a record"
        self.figures["share fetch of 1"] = round(run.count / COUNT)

    async def _join(self, coordinator: Address) -> UUID:
        """Join the share group and return the id of the topic when it is assigned."""
        epoch = 0
        while True:
            names = [TOPIC] if epoch == 0 else None
            reply = await self._client.ask(
                coordinator, ApiKey.SHARE_GROUP_HEARTBEAT, 1,
                group_id=SHARE_GROUP, member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=names,
            )  # fmt: skip
            epoch = reply.member_epoch
            if reply.assignment is not None and reply.assignment.topic_partitions:
                topic_id: UUID = reply.assignment.topic_partitions[0].topic_id
                return topic_id
            await self._client.backoff()

    async def _share_fetch(self, address: Address, topic_id: UUID, epoch: int, accepted: int | None) -> int | None:
        """Fetch one record and return its offset, if there is one."""
        batches = [] if accepted is None else [
            {"first_offset": accepted, "last_offset": accepted, "acknowledge_types": [1]}
        ]  # fmt: skip
        partitions = [{"partition_index": 0, "acknowledgement_batches": batches}]
        reply = await self._client.ask(
            address, ApiKey.SHARE_FETCH, 2,
            group_id=SHARE_GROUP, member_id=MEMBER, share_session_epoch=epoch, max_wait=seconds(0), min_bytes=1,
            max_bytes=1 << 20, max_records=1, batch_size=1, share_acquire_mode=1,
            topics=[{"topic_id": topic_id, "partitions": partitions}] if batches or epoch == 0 else [],
            forgotten_topics_data=[],
        )  # fmt: skip
        for topic in reply.responses:
            for each in topic.partitions[0].acquired_records:
                offset: int = each.first_offset
                return offset
        return None

    async def _count(self, name: str, address: Address, api: int, version: int, values: dict[str, Any]) -> None:
        for _ in range(WARM_UP):
            await self._client.ask(address, api, version, **values)
        with Instructions(self.hosts[0], self.loop) as run:
            for _ in range(COUNT):
                await self._client.ask(address, api, version, **values)
        self.figures[name] = round(run.count / COUNT)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__.split("\n")[0])
    parser.add_argument("--record", action="store_true", help="replace the recorded figures of this version of Python")
    options = parser.parse_args()
    version = ".".join(platform.python_version_tuple()[:2])
    recorded: dict[str, dict[str, float]] = json.loads(RECORDED.read_text())
    world = Measured()
    violations = world.run().violations
    assert not violations, violations
    if options.record:
        recorded[version] = world.figures
        RECORDED.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
    if version not in recorded:
        print(f"benchmarks/guard.json has no figures of Python {version}; --record writes them")
        return 0
    failed = False
    for name, figure in world.figures.items():
        before = recorded[version].get(name, figure)
        is_dearer = figure > before * GROWTH_MAX
        failed |= is_dearer
        remark = f": over {GROWTH_MAX - 1:.0%} more, see `make bench`" if is_dearer else ""
        print(f"{name:<20} {figure:>7.0f} instructions, recorded {before:>7.0f}{remark}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
