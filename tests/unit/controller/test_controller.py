import asyncio
from collections.abc import Sequence

import pytest

from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import MetadataRecord, NoOpRecord
from penstock.model.errors import InvalidRequest
from tests.unit.controller.cluster import apply


class SlowQuorum:
    """A quorum that commits when the test allows it."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.is_active = True
        self.may_commit = asyncio.Event()
        self.committed: list[Sequence[MetadataRecord]] = []

    async def commit(self, records: Sequence[MetadataRecord]) -> None:
        await self.may_commit.wait()
        self.committed.append(records)
        self.image = apply(self.image, records)


def note(image: Image) -> ControllerDecision[int]:
    return ControllerDecision((NoOpRecord(),), image.offset)


async def test_each_decision_sees_the_commits_of_the_previous_one() -> None:
    quorum = SlowQuorum()
    quorum.may_commit.set()
    controller = Controller(quorum)
    assert await asyncio.gather(*(controller.run(note) for _ in range(3))) == [-1, 0, 1]


async def test_a_decision_without_records_commits_nothing() -> None:
    quorum = SlowQuorum()
    assert await Controller(quorum).run(lambda image: ControllerDecision((), "reply")) == "reply"
    assert not quorum.committed


async def test_a_refusal_is_raised_to_the_caller_and_the_next_decision_runs() -> None:
    quorum = SlowQuorum()
    quorum.may_commit.set()
    controller = Controller(quorum)

    def refuse(image: Image) -> ControllerDecision[int]:
        raise InvalidRequest("no")

    with pytest.raises(InvalidRequest):
        await controller.run(refuse)
    assert await controller.run(note) == -1


async def test_a_cancelled_caller_does_not_let_the_next_decision_run_too_early() -> None:
    quorum = SlowQuorum()
    controller = Controller(quorum)
    first = asyncio.ensure_future(controller.run(note))
    second = asyncio.ensure_future(controller.run(note))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    quorum.may_commit.set()
    assert await second == 0
    assert len(quorum.committed) == 2
