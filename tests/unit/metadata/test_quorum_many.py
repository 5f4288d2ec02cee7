"""Quorums of three on in-memory disks: committed records survive, others may be lost."""

import asyncio
import errno
from uuid import UUID

import pytest

from penstock.metadata.membership import name_voters
from penstock.metadata.quorum import Quorum
from penstock.metadata.voters import Voter, VoterEndpoint
from penstock.model.errors import NotController, StorageError
from penstock.model.ids import NodeId, TopicName
from tests.unit.metadata.many import Many
from tests.unit.metadata.samples import config, topic
from tests.unit.metadata.world import FEATURES, settle


def value(quorum: Quorum) -> str | None:
    return quorum.image.topic_config(TopicName("any")).get("retention.ms")


async def started(**options: str) -> tuple[Many, Quorum]:
    world = Many(3, **options)
    await world.start()
    return world, await world.until_active()


async def set_value(world: Many, quorum: Quorum, text: str) -> None:
    commit = asyncio.ensure_future(quorum.commit([config("retention.ms", text, topic="any")]))
    for _ in range(20):
        await settle()
        if commit.done():
            break
    await commit


async def test_three_new_voters_elect_a_leader_and_share_the_first_features() -> None:
    world, active = await started()
    await world.pass_time(0.2)
    assert [quorum.image.features for quorum in world.quorums.values()] == [FEATURES] * 3
    assert {quorum.leader for quorum in world.quorums.values()} == {active.node_id}
    assert sum(quorum.is_active for quorum in world.quorums.values()) == 1


async def test_followers_see_an_image_for_every_commit_in_order() -> None:
    world, active = await started()
    follower = next(quorum for quorum in world.quorums.values() if quorum is not active)
    await world.pass_time(0.2)
    seen: list[list[str]] = []
    follower.subscribe(lambda delta, image: seen.append([made.name for made in delta.topics_created]))
    seen.clear()
    commits = [asyncio.ensure_future(active.commit(topic(f"t{number}", number))) for number in range(1, 6)]
    await world.pass_time(0.2)
    await asyncio.gather(*commits)
    assert [names for names in seen if names] == [[f"t{number}"] for number in range(1, 6)]


async def test_nothing_is_published_before_a_majority_has_it() -> None:
    world, active = await started()
    world.isolate(active.node_id)
    commit = asyncio.ensure_future(active.commit([config("retention.ms", "1", topic="any")]))
    await settle()
    assert not commit.done() and value(active) is None
    commit.cancel()


async def test_a_partitioned_leader_fails_pending_commits_and_drops_them_when_it_returns() -> None:
    world, old = await started()
    await set_value(world, old, "committed")
    received: list[bool] = []
    old.on_leadership(lambda is_active, epoch: received.append(is_active))
    world.isolate(old.node_id)
    lonely = asyncio.ensure_future(old.commit([config("retention.ms", "lonely", topic="any")]))
    await settle()
    new = await world.until_active(among=lambda node: node != old.node_id)
    await world.pass_time(4)
    with pytest.raises(NotController):
        await lonely
    assert received == [True, False]
    with pytest.raises(NotController):
        await old.commit([config("retention.ms", "no", topic="any")])
    await set_value(world, new, "later")
    world.cut.clear()
    await world.pass_time(4)
    assert value(old) == "later" and old.leader == new.node_id
    assert old.log.end_offset == new.log.end_offset


async def test_a_crashed_leader_is_replaced_and_all_commits_survive() -> None:
    world, old = await started()
    for number in range(10):
        await set_value(world, old, str(number))
    world.crash(old.node_id)
    new = await world.until_active()
    assert value(new) == "9"
    await set_value(world, new, "after")
    await world.start(old.node_id)
    await world.pass_time(1)
    assert value(world.quorums[old.node_id]) == "after"


async def test_commits_survive_a_crash_of_all_voters() -> None:
    world, active = await started()
    for number in range(5):
        await set_value(world, active, str(number))
    for node in list(world.quorums):
        world.crash(node)
    await world.start()
    again = await world.until_active()
    assert value(again) == "4" and again.epoch > active.epoch


@pytest.mark.parametrize("commits", [40, 41])
async def test_no_image_after_a_restart_of_all_is_older_than_those_before_it(commits: int) -> None:
    world, active = await started(metadata_log_max_record_bytes_between_snapshots="300")
    for number in range(commits):
        await set_value(world, active, str(number))
        await world.pass_time(0.05)
    for node in list(world.quorums):
        world.crash(node)
    await world.start()
    shown: list[str | None] = []
    for quorum in world.quorums.values():
        quorum.subscribe(lambda delta, image: shown.append(image.topic_config(TopicName("any")).get("retention.ms")))
    await world.until_active()
    await world.pass_time(1)
    assert len(shown) >= 3 and set(shown) == {str(commits - 1)}


async def test_a_follower_that_is_too_far_behind_loads_the_leaders_snapshot() -> None:
    world, active = await started(
        metadata_log_max_record_bytes_between_snapshots="300", controller_quorum_fetch_snapshot_max_bytes="50"
    )
    behind = next(node for node in world.quorums if node != active.node_id)
    world.crash(behind)
    for number in range(40):
        await set_value(world, active, str(number))
        await world.pass_time(0.05)
    assert active.log.start_offset > 0
    await world.start(behind)
    await world.pass_time(3)
    quorum = world.quorums[behind]
    assert value(quorum) == "39" and quorum.log.start_offset > 0
    await set_value(world, active, "last")
    await world.pass_time(0.2)
    assert value(quorum) == "last"
    world.crash(behind)
    await world.start(behind)
    await world.pass_time(1)
    assert value(world.quorums[behind]) == "last", "a loaded snapshot must survive a crash"


async def test_a_voter_whose_log_ends_with_its_checkpoint_publishes_an_image_without_new_records() -> None:
    world, active = await started(metadata_log_max_record_bytes_between_snapshots="10")
    for number in range(5):
        await set_value(world, active, str(number))
        await world.pass_time(0.2)
    node, quorum = next((node, each) for node, each in world.quorums.items() if each is not active)
    newest = max(name for name in world.disks[node].list(quorum.log.folder) if name.endswith(".checkpoint"))
    assert int(newest.split("-")[0]) == quorum.log.end_offset
    world.crash(node)
    await world.start(node)
    await world.pass_time(1)
    again = world.quorums[node]
    assert again.leader == active.node_id and again.log.end_offset == quorum.log.end_offset
    await asyncio.wait_for(again.ready(), 0.1)
    assert value(again) == "4"


async def test_a_leader_that_cannot_read_its_snapshot_reports_it_and_the_fetch_is_retried() -> None:
    world, active = await started(metadata_log_max_record_bytes_between_snapshots="300")
    behind = next(node for node in world.quorums if node != active.node_id)
    world.crash(behind)
    for number in range(40):
        await set_value(world, active, str(number))
        await world.pass_time(0.05)
    disk = world.disks[active.node_id]
    disk.failing["read"] = errno.EIO
    await world.start(behind)
    await world.pass_time(1)
    assert value(world.quorums[behind]) is None
    disk.failing.clear()
    await world.pass_time(3)
    assert value(world.quorums[behind]) == "39"


async def test_a_voter_with_an_offline_log_does_not_delay_the_others() -> None:
    world, active = await started()
    active.fail(OSError("the disk is gone"))
    before = world.clock.monotonic()
    new = await world.until_active(among=lambda node: node != active.node_id)
    assert new is not active and world.clock.monotonic() - before < 2.5


async def test_a_leader_that_cannot_write_is_replaced_without_a_timeout() -> None:
    world, active = await started()
    await world.pass_time(0.5)
    world.disks[active.node_id].failing["write"] = errno.ENOSPC
    with pytest.raises(StorageError):
        await set_value(world, active, "1")
    before = world.clock.monotonic()
    new = await world.until_active(among=lambda node: node != active.node_id)
    assert not active.is_active and world.clock.monotonic() - before < 1.0
    await set_value(world, new, "2")
    assert value(new) == "2"


async def test_a_leader_that_closes_is_replaced_without_a_timeout() -> None:
    world, active = await started()
    await world.pass_time(0.5)
    closing = asyncio.ensure_future(active.close())
    await settle()
    del world.quorums[active.node_id]
    before = world.clock.monotonic()
    await world.until_active()
    assert world.clock.monotonic() - before < 1.0
    await closing


async def test_voters_written_to_the_log_survive_a_crash_of_all() -> None:
    world, active = await started()
    assert [quorum.voter_registry.kraft_version for quorum in world.quorums.values()] == [0, 0, 0]
    for _ in range(2):  # the second call has nothing to do
        named = asyncio.ensure_future(name_voters(active, world.clock, timeout_s=5))
        await world.pass_time(0.2)
        await named
    end = active.log.end_offset
    await world.pass_time(1)
    assert active.log.end_offset == end
    for node in (1, 2, 3):
        world.crash(node)
    await world.start()
    active = await world.until_active()
    await world.pass_time(0.2)
    voters = tuple(
        Voter(
            id=NodeId(node),
            directory_id=UUID(int=node),
            endpoints=(VoterEndpoint(name="CONTROLLER", host="host", port=node),),
        )
        for node in (1, 2, 3)
    )
    assert [quorum.voter_registry.present for quorum in world.quorums.values()] == [voters] * 3
    assert [quorum.voter_registry.kraft_version for quorum in world.quorums.values()] == [1, 1, 1]
    await set_value(world, active, "7")
    assert value(active) == "7"
