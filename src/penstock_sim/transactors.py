"""Transactional producers: read from an input, write to an output, and commit both atomically, or abort.

Uses transaction version 2 (KIP-890): Produce 12 adds the partition, EndTxn returns the next epoch. Every request is
retried until its result is known, for as long as the transaction can live. Two transactors may share a transactional
id: the newer one fences the older.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from penstock.wire.api import ApiKey
from penstock_sim.client import STALE_LEADER, Lost, Shared, Unavailable, seconds
from penstock_sim.consumers import Consumer
from penstock_sim.history import FAIL, OK, Commit, Init, PartitionId, Send, Txn
from penstock_sim.members import fetch_offsets
from penstock_sim.producers import NEVER_WRITTEN, PRODUCE_VERSION, Values, batch_of, produce_fields, result_of

CONCURRENT = 51
FENCED = frozenset({47, 90, 49})
COORDINATOR = frozenset({14, 15, 16})
AGAIN = frozenset({7, 14, 15, 16, 19, 20, 51, 56}) | STALE_LEADER
ASK_S_MAX = 30.0


class Fenced(Exception):
    """Another producer has taken over the transactional id."""


class GivenUp(Exception):
    """The result was not known in time; the transaction is aborted or its outcome is unknown."""


class Transactor(Consumer):
    """A client that consumes `inputs` in its own group and writes each value once to `outputs`."""

    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        transactional_id: str,
        group: str,
        inputs: Sequence[tuple[str, int]],
        outputs: Sequence[tuple[str, int]],
        timeout_s: float,
        abort_chance: float,
        pause_s: float,
        values: type[Values] = Values,
    ) -> None:
        super().__init__(shared, name, partitions=inputs, committed_only=True, wait_s=0.1)
        self.transactional_id = transactional_id
        self._group = group
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        self._timeout_s = timeout_s
        self._abort_chance = abort_chance
        self._pause_s = pause_s
        self._values = values(self, 100)
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[PartitionId, int] = {}
        self.ended_at = 0.0
        self.idle_at = 0.0

    async def run(self) -> None:
        while not self.stopping:
            await self.sleep(self.random.random() * 2 * self._pause_s)
            try:
                if self._producer is None:
                    await self._init()
                    self.positions = {}
                await self._transact()
            except (Lost, Unavailable):
                await self.backoff()
            except GivenUp:
                self._producer = None
            except Fenced:
                # Fenced: leave the id to the other one for some time, then take it back.
                self._producer = None
                await self.sleep(2 + self.random.random() * 8)

    # -- one transaction -------------------------------------------------------------------

    async def _transact(self) -> None:
        assert self._producer is not None
        txn = Txn(self.name, self.transactional_id, *self._producer, began=self.now, group=self._group)
        records = await self._take_input(txn)
        if not records:
            self.idle_at = self.now
            return
        self.history.txns.append(txn)
        self._sequences = {}
        try:
            for value in records:
                await self._produce(txn, value)
            txn.wants_commit = self.random.random() >= self._abort_chance
            if txn.wants_commit and txn.offsets:
                await self._send_offsets(txn)
        except (GivenUp, Fenced):
            txn.wants_commit = False
            raise
        await self._end(txn)
        if not txn.wants_commit:
            self.positions = {}

    async def _take_input(self, txn: Txn) -> list[bytes]:
        """Return the values of the transaction: from the input, or generated if it has none."""
        if not self._inputs:
            return list(self._values.take(self.random.randrange(1, 4)))
        topic, partition = self.random.choice(self._inputs)
        partition_id = (await self.leader_of(topic, partition))[2]
        if partition_id not in self.positions:
            offsets = await fetch_offsets(self, self._group, [(topic, partition)])
            self.positions[partition_id] = max(offsets.get(partition_id, 0), 0)
        start = self.positions[partition_id]
        poll = await self.poll(topic, partition)
        if poll is None or not poll.records:
            return []
        taken = poll.records[: self.random.randrange(1, 5)]
        # Only up to the values taken; the rest is read again.
        self.positions[partition_id] = taken[-1][0] + 1 if len(taken) < len(poll.records) else poll.next_position
        assert self.positions[partition_id] > start
        txn.offsets[partition_id] = self.positions[partition_id]
        return [b"out:" + value for _, value in taken]

    async def _produce(self, txn: Txn, value: bytes) -> None:
        topic, partition = self._outputs[sum(value) % len(self._outputs)]
        partition_id = await self._until(lambda: self._partition_id(topic, partition))
        sequence = self._sequences.get(partition_id, 0)
        self._sequences[partition_id] = sequence + 1
        send = Send(
            self.name,
            partition_id,
            (value,),
            -1,
            self.now,
            idempotent=True,
            producer_id=txn.producer_id,
            producer_epoch=txn.epoch,
            sequence=sequence,
            txn=txn,
        )
        txn.sends.append(send)
        self.history.sends.append(send)
        fields = produce_fields(
            partition_id, batch_of(send, transactional=True), acks=-1, transactional_id=self.transactional_id
        )

        async def attempt() -> bool:
            address, send.leader_epoch, _ = await self.leader_of(topic, partition)
            send.attempts += 1
            reply = await self.ask(address, ApiKey.PRODUCE, PRODUCE_VERSION, may_be_late=True, **fields)
            send.code, offset = result_of(reply)
            if send.code == 0:
                send.outcome, send.offset, send.ended = OK, offset, self.now
                return True
            self._look_at(send.code, topic)
            if send.attempts == 1 and send.code in NEVER_WRITTEN:
                send.outcome = FAIL
            raise GivenUp(f"produce: {send.code}")

        await self._until(attempt)

    async def _partition_id(self, topic: str, partition: int) -> PartitionId:
        return (await self.leader_of(topic, partition))[2]

    async def _send_offsets(self, txn: Txn) -> None:
        commits = [
            Commit(self.name, self._group, -1, partition_id, offset, self.now, txn=txn)
            for partition_id, offset in txn.offsets.items()
        ]
        self.history.commits.extend(commits)
        topics = [
            {
                "name": partition_id.topic,
                "partitions": [{"partition_index": partition_id.partition_index, "committed_offset": offset}],
            }
            for partition_id, offset in txn.offsets.items()
        ]

        async def attempt() -> bool:
            address = await self.coordinator(0, self._group)
            reply = await self.ask(
                address,
                ApiKey.TXN_OFFSET_COMMIT,
                5,
                may_be_late=True,
                transactional_id=self.transactional_id,
                group_id=self._group,
                producer_id=txn.producer_id,
                producer_epoch=txn.epoch,
                topics=topics,
            )
            code = int(reply.topics[0].partitions[0].error_code)
            if code in COORDINATOR:
                self.forget_coordinator(0, self._group)
            if code:
                self._look_at(code, "")
                raise GivenUp(f"offsets: {code}")
            return True

        await self._until(attempt)

    async def _end(self, txn: Txn) -> None:
        txn.end_began = self.now

        async def attempt() -> tuple[int, int]:
            address = await self.coordinator(1, self.transactional_id)
            reply = await self.ask(
                address,
                ApiKey.END_TXN,
                5,
                may_be_late=True,
                transactional_id=self.transactional_id,
                producer_id=txn.producer_id,
                producer_epoch=txn.epoch,
                committed=txn.wants_commit,
            )
            code = int(reply.error_code)
            if code in COORDINATOR:
                self.forget_coordinator(1, self.transactional_id)
            if code:
                self._look_at(code, "")
                raise GivenUp(f"end: {code}")
            return int(reply.producer_id), reply.producer_epoch

        self._producer = await self._until(attempt)
        txn.outcome, txn.ended = OK, self.now
        for commit in self.history.commits[-8:]:
            if commit.txn is txn and txn.wants_commit:
                commit.outcome, commit.ended = OK, self.now
        self.ended_at = self.now

    async def _init(self) -> None:
        async def attempt() -> Init:
            address = await self.coordinator(1, self.transactional_id)
            began = self.now
            reply = await self.ask(
                address,
                ApiKey.INIT_PRODUCER_ID,
                5,
                transactional_id=self.transactional_id,
                transaction_timeout=seconds(self._timeout_s),
            )
            code = int(reply.error_code)
            if code in COORDINATOR:
                self.forget_coordinator(1, self.transactional_id)
            if code:
                self._look_at(code, "")
                raise GivenUp(f"init: {code}")
            return Init(self.name, self.transactional_id, int(reply.producer_id), reply.producer_epoch, began, self.now)

        init = await self._until(attempt)
        self.history.inits.append(init)
        self._producer = (init.producer_id, init.epoch)

    # -- retries ---------------------------------------------------------------------------

    def _look_at(self, code: int, topic: str) -> None:
        if code in FENCED:
            raise Fenced
        if code in AGAIN:
            if topic:
                self.forget(topic)
            raise Unavailable(f"code {code}")

    async def _until(self, attempt: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Retry until it succeeds or fails; raise GivenUp after a time limit."""
        deadline = self.now + ASK_S_MAX
        while True:
            try:
                return await attempt()
            except (Lost, Unavailable):
                self.topics.clear()
                self.forget_coordinator(1, self.transactional_id)
                self.forget_coordinator(0, self._group)
                if self.now > deadline or self.stopping:
                    raise GivenUp("timeout") from None
                await self.backoff()
