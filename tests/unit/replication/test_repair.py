from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.metadata.image import PartitionImage
from penstock.metadata.records import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from penstock.model.ids import LeaderEpoch, NodeId
from penstock.replication.repair import Next, Repairs, directory_of, is_usable, next_step

OWN, OTHER = UUID(int=77), UUID(int=78)


def step(
    *, damaged: bool = False, directory: UUID = OWN, has_other_leader: bool = True, caught_up: bool = False
) -> Next:
    return next_step(
        damaged=damaged,
        directory=directory,
        own_directory=OWN,
        has_other_leader=has_other_leader,
        caught_up=caught_up,
    )


def test_a_damaged_replica_is_first_said_to_be_lost() -> None:
    assert step(damaged=True) is Next.REPORT_LOST
    assert step(damaged=True, has_other_leader=False) is Next.REPORT_LOST


def test_it_is_replaced_only_when_another_leads() -> None:
    assert step(damaged=True, directory=LOST_DIRECTORY) is Next.REPLACE
    assert step(damaged=True, directory=LOST_DIRECTORY, has_other_leader=False) is Next.NOTHING


def test_a_refilled_replica_is_given_back_when_it_has_caught_up() -> None:
    assert step(directory=LOST_DIRECTORY) is Next.NOTHING
    assert step(directory=LOST_DIRECTORY, caught_up=True) is Next.REPORT_ASSIGNED
    assert step(directory=OTHER, caught_up=True) is Next.REPORT_ASSIGNED
    assert step(directory=OTHER, caught_up=True, has_other_leader=False) is Next.NOTHING


def test_a_replica_in_its_place_needs_nothing_and_one_without_a_place_is_given_it() -> None:
    assert step() is Next.NOTHING
    assert step(directory=MIGRATING_DIRECTORY) is Next.REPORT_ASSIGNED
    assert step(directory=UNASSIGNED_DIRECTORY) is Next.REPORT_ASSIGNED


def test_which_directories_can_be_relied_on() -> None:
    assert is_usable(OWN, (OWN,))
    assert is_usable(OWN, ())
    assert is_usable(UNASSIGNED_DIRECTORY, (OWN,))
    assert not is_usable(OTHER, (OWN,))
    assert not is_usable(LOST_DIRECTORY, (OWN,))


def test_the_directory_of_a_replica_stands_at_its_place() -> None:
    replicas = (NodeId(3), NodeId(1))
    state = PartitionImage(
        leader=NodeId(3), leader_epoch=LeaderEpoch(0), replicas=replicas, isr=replicas, directories=(OTHER, OWN)
    )
    assert directory_of(state, NodeId(1)) == OWN


async def test_what_was_emptied_here_is_said_to_be_lost_until_it_is_filled_whatever_the_image_says() -> None:
    replaced: list[Any] = []
    repaired: list[Any] = []
    idle: Any = SimpleNamespace(call_later=lambda delay_s, callback: None)
    repairs = Repairs(
        idle,
        idle,
        node_id=NodeId(1),
        own_directory=OWN,
        broker_epoch=lambda: -1,
        replace=replaced.append,
        repaired=repaired.append,
    )
    partition: Any = SimpleNamespace(topic_id=UUID(int=5), index=0, log=SimpleNamespace(damage="rot", end_offset=0))
    repairs.update(partition, _in_directory(LOST_DIRECTORY))
    assert replaced == [partition]
    partition.log.damage = None
    repairs.update(partition, _in_directory(OWN))
    assert repaired == [] and list(repairs._wanted.values()) == [LOST_DIRECTORY]
    repairs.update(partition, _in_directory(LOST_DIRECTORY))
    assert len(replaced) == 1 and not repairs._wanted
    repairs.close()


def _in_directory(directory: UUID) -> PartitionImage:
    replicas = (NodeId(3), NodeId(1))
    return PartitionImage(
        leader=NodeId(3), leader_epoch=LeaderEpoch(0), replicas=replicas, isr=replicas, directories=(OTHER, directory)
    )
