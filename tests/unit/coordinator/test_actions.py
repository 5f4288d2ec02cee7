"""Actions are released with the replies: when their records are committed, and never twice."""

from typing import Any

import pytest

from penstock.coordinator.decision import ShardDecision, SharedDecision, Ticket
from penstock.coordinator.errors import CoordinatorNotAvailable, NotCoordinator
from penstock.model.errors import NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut, StorageError
from tests.unit.coordinator.fakes import CountingShard, FakeClock, FakeLog, runtime


class ActingShard(CountingShard):
    """A shard that writes n for `("do", n)` and requests an action for it; after a load it does so for its total."""

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[int] | SharedDecision[int]:
        if isinstance(command, tuple) and command[0] == "do":
            return ShardDecision(records=[command[1]], replies=[(ticket, "done")], actions=[command[1]])
        return super().decide(command, ticket=ticket, now=now)

    def loaded(self, now: int) -> ShardDecision[int]:
        return ShardDecision(actions=[("again", self.total)] if self.total else [])


class Stage:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.log = FakeLog()
        self.performed: list[Any] = []
        self.shards: list[ActingShard] = []
        self.coordinator = runtime(self.make_shard, self.clock, self)

    def make_shard(self) -> ActingShard:
        self.shards.append(ActingShard())
        return self.shards[-1]

    def perform(self, index: int, action: Any) -> None:
        assert index == 3
        self.performed.append(action)

    def abandon(self, index: int) -> None:
        self.performed.append("abandoned")

    async def lead(self) -> None:
        self.coordinator.lead(3, self.log)
        await self.coordinator.partition_loaded(3)


@pytest.fixture
async def stage() -> Stage:
    made = Stage()
    await made.lead()
    return made


async def test_an_action_waits_until_its_record_is_committed(stage: Stage) -> None:
    stage.log.is_held = True
    first, second = stage.coordinator.submit_to(3, ("do", 1)), stage.coordinator.submit_to(3, ("do", 2))
    assert not stage.performed
    stage.log.commit()
    assert stage.performed == [1, 2]
    assert await first == await second == "done"


async def test_a_refused_append_leaves_no_action(stage: Stage) -> None:
    stage.log.refusal = NotEnoughReplicas()
    with pytest.raises(CoordinatorNotAvailable):
        await stage.coordinator.submit_to(3, ("do", 1))
    assert not stage.performed


@pytest.mark.parametrize("code", [RequestTimedOut.code, NotEnoughReplicasAfterAppend.code])
async def test_an_action_survives_the_timeout_of_its_request(stage: Stage, code: int) -> None:
    """Holds after replicas were lost too: the record stays in the log and may still be committed."""
    stage.log.is_held = True
    reply = stage.coordinator.submit_to(3, ("do", 1))
    stage.log.commit(code)
    with pytest.raises(CoordinatorNotAvailable):
        await reply
    stage.log.commit(code)
    assert not stage.performed
    stage.log.commit()
    assert stage.performed == [1]
    stage.log.is_held = False
    await stage.coordinator.submit_to(3, ("do", 2))
    assert stage.performed == [1, 2]


async def test_an_action_is_released_if_the_high_watermark_has_passed_when_the_wait_ends(stage: Stage) -> None:
    stage.log.is_held = True
    reply = stage.coordinator.submit_to(3, ("do", 1))
    stage.log.high_watermark = stage.log.end_offset
    stage.log.commit(RequestTimedOut.code)
    assert stage.performed == [1]
    with pytest.raises(CoordinatorNotAvailable):
        await reply


async def test_later_commits_release_earlier_actions_in_order(stage: Stage) -> None:
    stage.log.is_held = True
    replies = [stage.coordinator.submit_to(3, ("do", 1)), stage.coordinator.submit_to(3, ("add", 5))]
    stage.log.commit(RequestTimedOut.code)
    for reply in replies:
        with pytest.raises(CoordinatorNotAvailable):
            await reply
    stage.coordinator.submit_to(3, ("do", 2))
    stage.log.commit()
    assert stage.performed == [1, 2]


async def test_a_failed_log_abandons_started_actions(stage: Stage) -> None:
    stage.log.is_held = True
    reply = stage.coordinator.submit_to(3, ("do", 1))
    stage.log.commit(StorageError.code)
    with pytest.raises(NotCoordinator):
        await reply
    assert stage.performed == ["abandoned"]


async def test_resigning_abandons_actions_and_loading_requests_them_again(stage: Stage) -> None:
    await stage.coordinator.submit_to(3, ("do", 4))
    stage.coordinator._resign(3)
    await stage.lead()
    assert stage.performed == [4, "abandoned", ("again", 4)]


async def test_a_load_waits_for_its_log_to_be_committed_too(stage: Stage) -> None:
    stage.log.is_held = True
    stage.coordinator.submit_to(3, ("do", 4)).cancel()
    await stage.lead()
    assert stage.performed == ["abandoned"]
    stage.log.commit()
    assert stage.performed == ["abandoned", ("again", 4)]


async def test_a_shard_that_fails_on_its_records_is_abandoned_and_loaded_again(stage: Stage) -> None:
    await stage.coordinator.submit_to(3, ("do", 4))
    stage.shards[-1].fails_on = 6
    # All waiting requests fail with NotCoordinator, including the one that wrote the record.
    with pytest.raises(NotCoordinator):
        await stage.coordinator.submit_to(3, ("do", 6))
    await stage.coordinator.partition_loaded(3)
    assert stage.performed == [4, "abandoned", ("again", 10)]
