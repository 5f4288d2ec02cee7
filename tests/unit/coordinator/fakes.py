"""A manual clock, an in-memory log with controlled commits, and a shard that adds numbers."""

from collections.abc import Callable, Iterator
from typing import Any, cast

from penstock.coordinator.decision import Expired, InTransaction, ShardDecision, SharedDecision, Ticket, TransactionEnd
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.model.errors import NO_ERROR, Corruption, Refusal
from penstock.model.ids import NodeId
from penstock.model.topic import CONSUMER_OFFSETS
from penstock.replication.replicas import Replicas
from penstock.storage.marker import encode_marker
from penstock.storage.verification_guard import VerificationGuard
from penstock.wire.batch import BatchHeader, patch_offset_and_epoch


class FakeTimer:
    def __init__(self, due: float, callback: Callable[[], None]) -> None:
        self.due = due
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[FakeTimer] = []

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.now * 1000)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.now + delay_s, callback)
        self.timers.append(timer)
        return timer

    def advance(self, delay_s: float) -> None:
        until = self.now + delay_s
        while due := [timer for timer in self.timers if not timer.cancelled and timer.due <= until]:
            first = min(due, key=lambda timer: timer.due)
            self.timers.remove(first)
            self.now = first.due
            first.callback()
        self.now = until


class FakeLog:
    """A log that commits batches immediately or, if held, when `commit` is called."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.end_offset = 0
        self.high_watermark = 0
        self.is_held = False
        self.refusal: Refusal | None = None
        self.refuse_after = 0
        self.waits: list[tuple[int, Callable[[int], None]]] = []

    def append_marker(self, end: TransactionEnd) -> int:
        marker = encode_marker(
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            commit=end.is_commit,
            coordinator_epoch=end.coordinator_epoch,
            now_ms=0,
            broker_time=False,
        )
        return self.append(bytes(marker))

    def begin_verification(self, producer_id: int, producer_epoch: int) -> VerificationGuard | None:
        return VerificationGuard(producer_epoch, -1, starts_at_zero=False)

    def append(self, batch: bytes | bytearray, transaction: InTransaction | None = None) -> int:
        if self.refusal is not None:
            if self.refuse_after == 0:
                raise self.refusal
            self.refuse_after -= 1
        view = memoryview(bytearray(batch))
        patch_offset_and_epoch(view, 0, self.end_offset, 0)
        self.end_offset = BatchHeader.at(view).next_offset
        self.written.append(bytes(view))
        if not self.is_held:
            self.commit()
        return self.end_offset

    def when_committed(self, end: int, done: Callable[[int], None]) -> None:
        assert end > self.high_watermark
        self.waits.append((end, done))

    def commit(self, code: int = NO_ERROR) -> None:
        if code == NO_ERROR:
            self.high_watermark = self.end_offset
        waits, self.waits = self.waits, []
        for _, done in waits:
            done(code)

    def batches(self) -> Iterator[memoryview]:
        for batch in list(self.written):
            yield memoryview(batch)


class CountingShard:
    """A shard that adds numbers, staged ones when committed; `("wait",)` is answered by the next `("wake",)`."""

    def __init__(self) -> None:
        self.total = 0
        self.staged: dict[int, int] = {}
        self.waiting: list[Ticket] = []
        self.loaded_at: int | None = None
        self.fails_on: int | None = None

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[int] | SharedDecision[int]:
        decision: ShardDecision[int] = ShardDecision()
        if isinstance(command, Expired):
            command = ("add", 1000) if command.timer == "alarm" else ("nothing",)
        match command:
            case ("add", *numbers):
                decision.records += numbers
                decision.replies.append((ticket, self.total + sum(numbers)))
            case ("sweep", *numbers):
                decision.records += numbers
                decision.is_atomic = False
                decision.replies.append((ticket, len(numbers)))
            case ("stage", producer_id, *numbers):
                decision.records += numbers
                decision.transaction = InTransaction(producer_id, 3)
                decision.replies.append((ticket, self.total))
            case ("get",):
                decision.replies.append((ticket, self.total))
            case ("wait",):
                decision.drafts["waiting"] = [*self.waiting, ticket]
            case ("wake",):
                decision.replies += [(waiting, "woken") for waiting in self.waiting]
                decision.replies.append((ticket, len(self.waiting)))
                decision.drafts["waiting"] = []
            case ("alarm", delay_ms):
                decision.timers["alarm"] = delay_ms
                decision.replies.append((ticket, None))
            case ("bug",):
                raise ZeroDivisionError
        return decision

    def adopt(self, drafts: dict[str, Any]) -> None:
        self.waiting = drafts.get("waiting", self.waiting)

    def apply(self, record: int) -> None:
        if record == self.fails_on:
            raise ZeroDivisionError
        self.total += record

    def stage(self, record: int, producer_id: int) -> None:
        self.staged[producer_id] = self.staged.get(producer_id, 0) + record

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        staged = self.staged.pop(producer_id, 0)
        if staged == self.fails_on:
            raise ZeroDivisionError
        self.total += staged if is_commit else 0

    def loaded(self, now: int) -> ShardDecision[int]:
        self.loaded_at = now
        return ShardDecision(timers={"other": 5_000})

    def encode(self, record: int) -> tuple[bytes, bytes | None]:
        return b"number", str(record).encode()

    def decode(self, key: bytes, value: bytes | None) -> int | None:
        if key != b"number":
            return None
        try:
            return int(value or b"")
        except ValueError as error:
            raise Corruption("not a number") from error


class SharingShard(CountingShard):
    """A shard whose additions may share a batch, except those of a single zero."""

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[int] | SharedDecision[int]:
        match command:
            case ("add", *numbers) if numbers != [0]:
                return SharedDecision(numbers, sum(numbers), ("alarm", 50) if 7 in numbers else None)
        return super().decide(command, ticket=ticket, now=now)


class NoReplicas:
    """A node without partitions: tests pass in the logs that it leads."""

    def __init__(self) -> None:
        self.on_late_open: list[object] = []
        self.leased = True

    def has_lease(self) -> bool:
        return self.leased

    def is_opening(self, topic: str, index: int) -> bool:
        return False


def runtime(
    make_shard: Callable[[], Any], clock: Any, performer: Any = None, replicas: NoReplicas | None = None
) -> CoordinatorRuntime[Any]:
    made: CoordinatorRuntime[Any] = CoordinatorRuntime(
        CONSUMER_OFFSETS,
        node_id=NodeId(0),
        replicas=cast(Replicas, replicas or NoReplicas()),
        clock=clock,
        make_shard=make_shard,
        commit_timeout_ms=lambda: 5_000,
        performer=performer,
    )
    # Every key belongs to partition 0.
    made.partition_count = 1
    return made
