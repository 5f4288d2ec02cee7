"""Effects of the controller's responses on a proposal, and the count of rejected proposals."""

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from penstock.model.ids import NodeId
from penstock.replication import alter_isr
from penstock.replication.alter_isr import IsrChanges
from penstock.replication.isr import Proposal
from penstock.wire.api import ApiKey
from tests.support.compacting import HandClock

PROPOSAL = Proposal(leader_epoch=3, partition_epoch=5, isr=(NodeId(1), NodeId(2)), broker_epochs=(10, 20))


class Lead:
    def __init__(self) -> None:
        self.proposal: Proposal | None = PROPOSAL


class FakePartition:
    def __init__(self) -> None:
        self.topic, self.topic_id, self.index = "t", UUID(int=5), 0
        self.leader_epoch, self.replicas, self.isr = 3, (1, 2), (1,)
        self.leadership = Lead()
        self.taken: list[tuple[NodeId, ...]] = []

    def apply_isr(self, isr: tuple[NodeId, ...], replicas: object, epoch: int) -> None:
        self.taken.append(isr)
        self.leadership.proposal = None

    def withdraw(self, proposal: Proposal) -> None:
        assert proposal is PROPOSAL
        self.leadership.proposal = None


class Controller:
    """A channel that returns prepared responses in order."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)

    async def ask(self, key: int, request: Any, *, timeout_s: float) -> Any:
        code = self.codes.pop(0)
        row = SimpleNamespace(
            partition_index=0, error_code=code, leader_id=1, leader_epoch=3, isr=(1, 2), partition_epoch=6
        )
        topic = SimpleNamespace(topic_id=UUID(int=5), partitions=(row,))
        return SimpleNamespace(error_code=ErrorCode.none, topics=(topic,))


@pytest.mark.parametrize(
    ("codes", "refused", "taken"),
    [
        ([ErrorCode.none], 0, 1),
        ([ErrorCode.ineligible_replica], 1, 0),
        ([ErrorCode.not_controller, ErrorCode.none], 1, 1),
    ],
)
def test_rejected_proposals_are_counted(codes: list[ErrorCode], refused: int, taken: int) -> None:
    async def story() -> None:
        controller: Any = Controller(*codes)
        changes = IsrChanges(controller, HandClock(0), node_id=NodeId(1), broker_epoch=lambda: 10)
        partition: Any = FakePartition()
        changes.propose(partition, PROPOSAL)
        assert changes._task is not None
        await changes._task
        assert (changes.refused, len(partition.taken)) == (refused, taken)
        assert partition.leadership.proposal is None
        assert not controller.codes

    asyncio.run(story())


class ScriptedController:
    """A channel whose responses are made by functions of the partition's row."""

    def __init__(self, *responses: Any) -> None:
        self.responses = list(responses)

    async def ask(self, key: int, request: Any, *, timeout_s: float) -> Any:
        return self.responses.pop(0)()


def response(*, error: ErrorCode = ErrorCode.none, code: ErrorCode | None = ErrorCode.none, **row: Any) -> Any:
    """Make a response; with `code=None` it does not name the partition."""
    fields = {"partition_index": 0, "error_code": code, "leader_id": 1, "leader_epoch": 3, "isr": (1, 2)}
    rows = () if code is None else (SimpleNamespace(**{**fields, "partition_epoch": 6, **row}),)
    return SimpleNamespace(error_code=error, topics=(SimpleNamespace(topic_id=UUID(int=5), partitions=rows),))


async def proposed(*responses: Any) -> tuple[IsrChanges, Any]:
    changes = IsrChanges(ScriptedController(*responses), HandClock(0), node_id=NodeId(1), broker_epoch=lambda: 10)
    partition: Any = FakePartition()
    changes.propose(partition, PROPOSAL)
    assert changes._task is not None
    await changes._task
    return changes, partition


async def test_a_partition_that_the_response_does_not_name_is_proposed_again() -> None:
    changes, partition = await proposed(lambda: response(code=None), response)
    assert partition.taken == [(1, 2)]
    assert changes.refused == 0


async def test_an_isr_for_another_leader_or_epoch_is_not_applied() -> None:
    _, partition = await proposed(lambda: response(leader_id=2))
    assert (partition.taken, partition.leadership.proposal) == ([], PROPOSAL)
    _, partition = await proposed(lambda: response(leader_epoch=4))
    assert partition.taken == []


async def test_a_response_to_a_proposal_that_was_superseded_meanwhile_changes_nothing() -> None:
    partition: Any = FakePartition()

    def supersede() -> Any:
        partition.leadership.proposal = None
        return response()

    changes = IsrChanges(ScriptedController(supersede), HandClock(0), node_id=NodeId(1), broker_epoch=lambda: 10)
    changes.propose(partition, PROPOSAL)
    assert changes._task is not None
    await changes._task
    assert partition.taken == []


async def test_an_unnamed_partition_with_a_superseded_proposal_is_not_proposed_again() -> None:
    partition: Any = FakePartition()

    def supersede() -> Any:
        partition.leadership.proposal = None
        return response(code=None)

    changes = IsrChanges(ScriptedController(supersede), HandClock(0), node_id=NodeId(1), broker_epoch=lambda: 10)
    changes.propose(partition, PROPOSAL)
    assert changes._task is not None
    await changes._task
    assert not changes._waiting


async def test_nothing_is_sent_after_the_end() -> None:
    channel: Any = ScriptedController()
    changes = IsrChanges(channel, HandClock(0), node_id=NodeId(1), broker_epoch=lambda: 10)
    partition: Any = FakePartition()
    changes.propose(partition, PROPOSAL)
    changes.close()
    assert changes._task is not None
    with pytest.raises(asyncio.CancelledError):
        await changes._task
    changes._task = None
    changes.propose(partition, PROPOSAL)
    assert changes._task is None, "no other task is started"


def test_the_code_for_the_first_proposal_is_loaded_in_one_call_off_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded: list[int] = []
    monkeypatch.setattr(alter_isr, "load_for_client", loaded.append)
    job = alter_isr.loading()
    call = next(job)
    assert call is not None and loaded == []
    call()
    assert loaded == [ApiKey.ALTER_PARTITION]
    with pytest.raises(StopIteration):
        next(job)
