"""Dead-letter records: their content, and that none is lost if writing one fails."""

import asyncio
from typing import Any

import pytest

from penstock.coordinator.errors import CoordinatorNotAvailable
from penstock.model.errors import LeaderNotAvailable, Refusal
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.commands import DeleteState
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.sessions import SessionKey
from penstock.shares.states import AcknowledgementBatch
from penstock.wire.records import Record
from tests.unit.shares.share_node import KEY, LED, ShareNode, acknowledged

RELEASE, REJECT = 2, 3


class Letters:
    """The dead-letter topic, which fails as often as a test says."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, Record]] = []
        self.failures = 0
        self.fault: Exception | None = None

    async def write(self, topic: str, index: int, letters: list[Record]) -> None:
        await asyncio.sleep(0)
        if (fault := self.fault) is not None:
            self.fault = None
            raise fault
        if self.failures:
            self.failures -= 1
            raise LeaderNotAvailable
        self.written += [(topic, index, letter) for letter in letters]


class LetterNode(ShareNode):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"dead_letter_topic": "dlq.g", "delivery_count_limit": 2, **settings})
        self.letters = Letters()
        self.leader._letters = self.letters  # type: ignore[assignment]

    async def pauses(self) -> None:
        """Let the state client wait on this node's clock."""
        pause: Any = self.pause
        self.state.pause = pause  # type: ignore[method-assign]

    async def pause(self, seconds: float) -> None:
        self.clock.advance(seconds)

    async def opened(self) -> LedSharePartition:
        await self.initialize()
        await self.pauses()
        led = self.leader.open(*LED)
        await self.settle()
        return led


async def end(led: LedSharePartition, kind: int, *offsets: int) -> None:
    batches = [AcknowledgementBatch(offset, offset, (kind,)) for offset in offsets]
    assert await acknowledged(led, "m", batches)


def take(led: LedSharePartition) -> None:
    led.acquire("m", AcquireLimits(records_max=500), 1 << 20)


def headers(letter: Record) -> dict[str, str]:
    return {name.decode().removeprefix("__dlq.errors."): (value or b"").decode() for name, value in letter.headers}


async def test_a_rejected_record_is_archived_after_its_dead_letter_record() -> None:
    node = LetterNode()
    led = await node.opened()
    node.produce(3)
    take(led)
    await end(led, REJECT, 1)
    await node.settle()
    ((topic, index, letter),) = node.letters.written
    assert (topic, index, letter.key, letter.value) == ("dlq.g", 0, None, None)
    assert headers(letter) == {
        "topic": "jobs",
        "partition": "0",
        "offset": "1",
        "group": "g",
        "delivery.count": "1",
        "message": "The record was rejected.",
    }
    assert node.state.shard.states[KEY].value.ranges == ((1, 1, 4, 1),)
    node.leader.close()


async def test_the_delivery_limit_makes_a_dead_letter_and_copies_the_record() -> None:
    node = LetterNode(copies_dead_letters=True)
    led = await node.opened()
    node.produce(1)
    for _ in range(2):
        take(led)
        await end(led, RELEASE, 0)
    await node.settle()
    ((_, _, letter),) = node.letters.written
    assert (letter.key, letter.value) == (b"key", b"value")
    assert headers(letter)["message"] == "The delivery count limit was reached."
    assert led.flight is not None and led.flight.start == 1
    node.leader.close()


async def test_a_dead_letter_is_written_until_it_succeeds() -> None:
    node = LetterNode()
    led = await node.opened()
    node.letters.failures = 3
    node.produce(2)
    take(led)
    await end(led, REJECT, 0, 1)
    await node.settle()
    assert [headers(letter)["offset"] for _, _, letter in node.letters.written] == ["0", "1"]
    assert led.flight is not None and led.flight.start == 2
    node.leader.close()


async def test_a_record_that_is_rejected_while_the_last_dead_letter_is_finished_gets_its_own() -> None:
    node = LetterNode()
    led = await node.opened()
    node.produce(2)
    take(led)
    await end(led, REJECT, 0)
    # Both the outcome of record 0 and the rejection of record 1 are written in one iteration of the event loop.
    node.state.hold = asyncio.Event()
    await node.settle()
    rejected = asyncio.ensure_future(end(led, REJECT, 1))
    await node.settle()
    node.state.hold.set()
    await rejected
    await node.settle()
    assert [headers(letter)["offset"] for _, _, letter in node.letters.written] == ["0", "1"]
    assert led.flight is not None and led.flight.start == 2
    node.leader.close()


async def test_a_dead_letter_is_written_although_the_first_attempt_raises_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = LetterNode()
    led = await node.opened()
    node.letters.fault = ValueError("a response without partitions")
    node.produce(1)
    take(led)
    await end(led, REJECT, 0)
    await node.settle()
    assert len(node.letters.written) == 1
    assert "a response without partitions" in caplog.text
    node.leader.close()


async def test_a_dead_letter_is_written_once_if_the_outcome_cannot_be_written_at_first() -> None:
    node = LetterNode()
    led = await node.opened()
    node.produce(1)
    take(led)
    await end(led, REJECT, 0)
    node.state.errors = [CoordinatorNotAvailable.code, Refusal.code]
    began = node.clock.now
    await node.settle()
    assert len(node.letters.written) == 1
    assert led.flight is not None and led.flight.start == node.state.start_offset == 1
    assert node.clock.now - began == 1.0 + 2.0, "it pauses before each attempt"
    node.leader.close()


async def test_a_group_whose_state_is_deleted_writes_no_more_dead_letters() -> None:
    node = LetterNode()
    led = await node.opened()
    node.produce(1)
    take(led)
    await end(led, REJECT, 0)
    assert not (await node.state.ask(DeleteState(KEY))).error
    await node.settle()
    assert len(node.letters.written) == 1
    assert node.leader.find(*LED) is None
    node.leader.close()


async def test_dead_letters_are_written_after_the_last_member_has_left() -> None:
    node = LetterNode()
    led = await node.opened()
    session = node.leader.check_sessions().fetch(
        SessionKey("g", "m"), 0, added=(), forgotten=(), has_acknowledgements=False, connection="c"
    )
    node.produce(1)
    take(led)
    node.letters.failures = 2
    assert await acknowledged(led, "m", [AcknowledgementBatch(0, 0, (REJECT,))])
    node.leader.close_session(session)
    await node.settle()
    assert len(node.letters.written) == 1
    assert node.leader.find(*LED) is None
    node.leader.close()


async def test_the_next_leader_resumes() -> None:
    node = LetterNode()
    led = await node.opened()
    node.letters.failures = 10**9
    node.produce(2)
    take(led)

    async def stuck(seconds: float) -> None:
        led.close()

    node.state.pause = stuck  # type: ignore[method-assign, assignment]
    await end(led, REJECT, 0)
    await node.settle()
    assert node.letters.written == []
    node.letters.failures = 0
    node.partition.leader_epoch += 1
    again = node.leader.open(*LED)
    await node.settle()
    assert [headers(letter)["offset"] for _, _, letter in node.letters.written] == ["0"]
    assert again.flight is not None and again.flight.start == 1
    node.leader.close()
