"""Administrative clients: create topics, delete records, change settings, create and delete topics repeatedly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.wire.api import ApiKey
from penstock_sim.client import Client, Lost, Shared, Unavailable, seconds
from penstock_sim.consumers import EARLIEST, LATEST, list_offset
from penstock_sim.history import FAIL, OK, Send, Trimmed
from penstock_sim.plan import Plan, TopicPlan
from penstock_sim.producers import PRODUCE_VERSION, batch_of, produce_fields, result_of

EXISTS = 36
TOPIC_CONFIG = 2
BROKER_CONFIG = 4
LEAST_MIN_ISR = 2
"""Below it, records would be acknowledged that a single lost disk may take away."""
ATTEMPTS_MAX = 60


async def create_topics(
    client: Client, topics: Sequence[TopicPlan], *, replicas: int, in_order: Sequence[int] = ()
) -> bool:
    """Create topics and wait until each partition has a leader.

    With `in_order`, partition 0 is assigned to the first of these nodes and its successors, partition 1 to the second
    and its successors, and so on. Otherwise the controller chooses the assignment.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            reply = await client.ask(
                client.random.choice(client.shared.bootstrap),
                ApiKey.CREATE_TOPICS,
                7,
                topics=[
                    {
                        "name": topic.name,
                        **_placement(topic, replicas, in_order),
                        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
                    }
                    for topic in topics
                ],
                timeout=seconds(10),
            )
            if all(int(topic.error_code) in (0, EXISTS) for topic in reply.topics):
                for topic in topics:
                    for index in range(topic.partitions):
                        await client.leader_of(topic.name, index)
                return True
        except (Lost, Unavailable):
            client.topics.clear()
        await client.backoff()
    return False


async def alter_configs(client: Client, resource_type: int, name: str, options: Mapping[str, str | None]) -> bool:
    """Set options, or delete those with None; return whether the broker has accepted that."""
    reply = await client.ask(
        client.random.choice(client.shared.bootstrap),
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        resources=[
            {
                "resource_type": resource_type,
                "resource_name": name,
                "configs": [
                    {"name": option, "config_operation": int(value is None), "value": value}
                    for option, value in options.items()
                ],
            }
        ],
        validate_only=False,
    )
    return not any(int(each.error_code) for each in reply.responses)


def _placement(topic: TopicPlan, replicas: int, in_order: Sequence[int]) -> dict[str, Any]:
    if not in_order:
        return {"num_partitions": topic.partitions, "replication_factor": replicas}
    turned = [[*in_order[index % len(in_order) :], *in_order] for index in range(topic.partitions)]
    assignments = [{"partition_index": index, "broker_ids": row[:replicas]} for index, row in enumerate(turned)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


class Trimmer(Client):
    """A client that deletes old records from time to time."""

    def __init__(self, shared: Shared, name: str, *, partitions: Sequence[tuple[str, int]]) -> None:
        super().__init__(shared, name)
        self._partitions = partitions

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(2 + self.random.random() * 8)
            topic, partition = self.random.choice(self._partitions)
            try:
                await self._trim(topic, partition)
            except (Lost, Unavailable):
                self.forget(topic)

    async def _trim(self, topic: str, partition: int) -> None:
        first = await list_offset(self, topic, partition, EARLIEST, committed_only=False)
        last = await list_offset(self, topic, partition, LATEST, committed_only=False)
        if first < 0 or last <= first:
            return
        offset = self.random.randrange(first, last + 1)
        address, _, partition_id = await self.leader_of(topic, partition)
        trim = Trimmed(self.name, partition_id, offset, self.now)
        self.history.trimmed.append(trim)
        reply = await self.ask(
            address,
            ApiKey.DELETE_RECORDS,
            2,
            topics=[{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}],
            timeout=seconds(5),
        )
        trim.outcome = FAIL if int(reply.topics[0].partitions[0].error_code) else OK


class Tuner(Client):
    """A client that changes `min.insync.replicas` of topics, and that of the whole cluster."""

    def __init__(self, shared: Shared, name: str, *, topics: Sequence[str]) -> None:
        super().__init__(shared, name)
        self._resources = [*((TOPIC_CONFIG, topic) for topic in topics), (BROKER_CONFIG, "")]

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(0.5 + self.random.random() * 4)
            resource, name = self.random.choice(self._resources)
            value = self.random.choice((str(LEAST_MIN_ISR), "3", None))
            try:
                await alter_configs(self, resource, name, {"min.insync.replicas": value})
            except (Lost, Unavailable):
                self.forget(name)


class Churner(Client):
    """A client that creates topics, writes to them and deletes them, reusing the names."""

    def __init__(self, shared: Shared, name: str, *, replicas: int) -> None:
        super().__init__(shared, name)
        self._replicas = replicas
        self._count = 0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(1 + self.random.random() * 4)
            name = self.random.choice(("brief0", "brief1"))
            try:
                await self._create_and_delete(name)
            except (Lost, Unavailable):
                self.forget(name)

    async def _create_and_delete(self, name: str) -> None:
        if not await create_topics(self, [TopicPlan(name, self.random.choice((1, 2)))], replicas=self._replicas):
            return
        self.forget(name)
        for _ in range(self.random.randrange(3)):
            address, _, partition_id = await self.leader_of(name, 0)
            self._count += 1
            send = Send(self.name, partition_id, (f"{self.name}.{self._count}".encode(),), -1, self.now, attempts=1)
            self.history.sends.append(send)
            self.history.deleted_topics.add(partition_id.topic_id)
            reply = await self.ask(
                address, ApiKey.PRODUCE, PRODUCE_VERSION, **produce_fields(partition_id, batch_of(send), acks=-1)
            )
            send.code, send.offset = result_of(reply)
            send.outcome = OK if send.code == 0 else send.outcome
        await self.ask(
            self.random.choice(self.shared.bootstrap),
            ApiKey.DELETE_TOPICS,
            6,
            topics=[{"name": name, "topic_id": None}],
            timeout=seconds(10),
        )
        self.forget(name)


def clients(shared: Shared, plan: Plan, partitions: Sequence[tuple[str, int]]) -> list[Client]:
    found: list[Client] = []
    if plan.trims:
        found.append(Trimmer(shared, "trimmer", partitions=partitions))
    if plan.churn:
        found.append(Churner(shared, "churner", replicas=min(plan.nodes, 3)))
    if plan.tunes:
        found.append(Tuner(shared, "tuner", topics=[topic.name for topic in plan.topics]))
    return found
