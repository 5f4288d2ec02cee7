"""The shards of one internal topic on this node, each with its runner.

Hands commands to the runner of their partition and makes and stops runners as leaders change. Calls
go to shard_runner.py. Refuses: NotCoordinator for what it does not lead, and what the runner refuses.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar

from penstock.coordinator.decision import Performer, TransactionEnd
from penstock.coordinator.errors import NotCoordinator
from penstock.coordinator.shard import Shard, ShardLog
from penstock.coordinator.shard_runner import ShardRunner
from penstock.coordinator.shared import Done, SharedTurn
from penstock.model.errors import Refusal
from penstock.ports.clock import Clock
from penstock.storage.verification import Verification

R = TypeVar("R")


class Coordinator(Generic[R]):
    """All shards of one internal topic on this node, by partition index."""

    def __init__(self, make_shard: Callable[[int], Shard[R]], clock: Clock, performer: Performer | None = None) -> None:
        self._make_shard = make_shard
        self._clock = clock
        self._performer = performer
        self._runners: dict[int, ShardRunner[R]] = {}
        self._turn = SharedTurn()

    def lead(self, index: int, shard_log: ShardLog) -> None:
        """This node has become the leader of the partition: load its shard."""
        self.resign(index)
        self._runners[index] = ShardRunner(
            index, lambda: self._make_shard(index), shard_log, self._clock, self._performer, self._turn
        )

    def resign(self, index: int) -> None:
        """It no longer is: everybody who waits is sent to look for the new one."""
        runner = self._runners.pop(index, None)
        if runner is not None:
            runner.stop()

    def close(self) -> None:
        for index in list(self._runners):
            self.resign(index)

    def submit(self, index: int, command: Any) -> "asyncio.Future[Any]":
        """Run a command; the future has its reply. Raises at once if the partition is not served here."""
        return self._runner(index).submit(command)

    def share(self, index: int, command: Any, done: Done) -> None:
        """Run a command that need not be written on its own; `done` gets its reply, maybe before this returns.

        Raises at once if the partition is not served here.
        """
        runner = self._runner(index)
        if not runner.share(command, done):
            runner.submit(command).add_done_callback(partial(_hand_over, done))

    def end_transaction(self, index: int, end: TransactionEnd) -> "asyncio.Future[None]":
        """Write the marker of a transaction at once; done when it is committed. Raises if it is not served here."""
        return self._runner(index).end_transaction(end)

    def begin_verification(self, index: int, producer_id: int, producer_epoch: int) -> Verification | None:
        """Call before the transaction coordinator is asked; None if the transaction is open here already."""
        return self._runner(index).begin_verification(producer_id, producer_epoch)

    def _runner(self, index: int) -> "ShardRunner[R]":
        runner = self._runners.get(index)
        if runner is None:
            raise NotCoordinator
        return runner

    async def run(self, index: int, command: Any) -> Any:
        return await self.submit(index, command)

    def active(self) -> Iterator[tuple[int, Shard[R]]]:
        """The shards that are loaded, to read or to give new settings."""
        for index, runner in list(self._runners.items()):
            if runner.is_active:
                yield index, runner.shard

    async def loaded(self, index: int) -> None:
        """Wait until the partition's load has ended, well or not."""
        runner = self._runners.get(index)
        if runner is not None:
            await runner.loaded()


def _hand_over(done: Done, future: "asyncio.Future[Any]") -> None:
    error = NotCoordinator() if future.cancelled() else future.exception()
    if error is None:
        done(future.result(), None)
    else:
        done(None, error if isinstance(error, Refusal) else Refusal(f"failed: {error!r}"))
