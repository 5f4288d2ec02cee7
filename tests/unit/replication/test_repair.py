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


def test_a_damaged_replica_is_reported_as_lost_first() -> None:
    assert step(damaged=True) is Next.REPORT_LOST
    assert step(damaged=True, has_other_leader=False) is Next.REPORT_LOST


def test_a_damaged_replica_is_replaced_only_if_another_node_leads() -> None:
    assert step(damaged=True, directory=LOST_DIRECTORY) is Next.REPLACE
    assert step(damaged=True, directory=LOST_DIRECTORY, has_other_leader=False) is Next.NOTHING


def test_a_copied_replica_is_reported_as_assigned_when_it_has_caught_up() -> None:
    assert step(directory=LOST_DIRECTORY) is Next.NOTHING
    assert step(directory=LOST_DIRECTORY, caught_up=True) is Next.REPORT_ASSIGNED
    assert step(directory=OTHER, caught_up=True) is Next.REPORT_ASSIGNED
    assert step(directory=OTHER, caught_up=True, has_other_leader=False) is Next.NOTHING


def test_an_assigned_replica_needs_nothing_and_an_unassigned_one_is_reported() -> None:
    assert step() is Next.NOTHING
    assert step(directory=MIGRATING_DIRECTORY) is Next.REPORT_ASSIGNED
    assert step(directory=UNASSIGNED_DIRECTORY) is Next.REPORT_ASSIGNED


def test_lost_and_unknown_directories_are_not_usable() -> None:
    assert is_usable(OWN, (OWN,))
    assert is_usable(OWN, ())
    assert is_usable(UNASSIGNED_DIRECTORY, (OWN,))
    assert not is_usable(OTHER, (OWN,))
    assert not is_usable(LOST_DIRECTORY, (OWN,))


def test_the_directory_of_a_replica_has_the_same_index() -> None:
    replicas = (NodeId(3), NodeId(1))
    state = PartitionImage(
        leader=NodeId(3), leader_epoch=LeaderEpoch(0), replicas=replicas, isr=replicas, directories=(OTHER, OWN)
    )
    assert directory_of(state, NodeId(1)) == OWN


async def test_an_emptied_replica_is_reported_as_lost_until_it_has_caught_up() -> None:
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
