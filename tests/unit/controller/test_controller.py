import asyncio
from collections.abc import Sequence

import pytest

from penstock.controller.controller import Controller
from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import MetadataRecord, NoOpRecord
from penstock.model.errors import InvalidRequest, NotController
from penstock.model.ids import LeaderEpoch
from penstock.model.job import Job
from tests.unit.controller.cluster import apply


class SlowQuorum:
    """A quorum that commits when the test allows it."""

    def __init__(self) -> None:
        self.image: Image = EMPTY
        self.is_active = True
        self.epoch = LeaderEpoch(1)
        self.may_commit = asyncio.Event()
        self.committed: list[Sequence[MetadataRecord]] = []

    async def commit(self, *parts: Sequence[MetadataRecord]) -> None:
        records = [record for part in parts for record in part]
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


def note_in_slices(image: Image) -> Job[ControllerDecision[int]]:
    for _ in range(3):
        yield None
    return note(image)


async def test_other_work_but_no_other_decision_runs_between_the_slices_of_a_decision() -> None:
    quorum = SlowQuorum()
    quorum.may_commit.set()
    controller = Controller(quorum)
    sliced = asyncio.ensure_future(controller.run(note_in_slices))
    whole = asyncio.ensure_future(controller.run(note))
    turns = 0
    while not sliced.done():
        assert not whole.done()
        turns += 1
        await asyncio.sleep(0)
    assert turns > 3
    assert [await sliced, await whole] == [-1, 0]


@pytest.mark.parametrize("change", [{"is_active": False}, {"epoch": LeaderEpoch(2)}])
async def test_a_decision_in_slices_is_void_when_another_controller_was_active_meanwhile(
    change: dict[str, object],
) -> None:
    quorum = SlowQuorum()
    quorum.may_commit.set()
    deciding = asyncio.ensure_future(Controller(quorum).run(note_in_slices))
    for _ in range(3):
        await asyncio.sleep(0)
    for name, value in change.items():
        setattr(quorum, name, value)
    with pytest.raises(NotController):
        await deciding
    assert not quorum.committed


def test_only_a_decision_that_is_not_atomic_is_committed_in_parts() -> None:
    records = (NoOpRecord(),) * 5
    assert [len(part) for part in ControllerDecision(records, None).parts(2)] == [5]
    assert [len(part) for part in ControllerDecision(records, None, is_atomic=False).parts(2)] == [2, 2, 1]
