"""Tests that every scenario has the expected result, and fails with the bug that it is about."""

from pathlib import Path

import pytest

from penstock_sim.ablations import planted
from penstock_sim.scenario import Departed, run, run_file

FOLDER = Path(__file__).parent.parent / "scenarios"
BUGS = {
    "a_failed_sync_costs_two_seconds_of_writes": "mark-ahead-of-the-disk",
    "a_full_disk_on_a_node_alone_still_serves_reads": "reserve-not-used",
    "a_full_disk_stops_nobody_elses_writes": "full-leader-keeps-leading",
    "a_killed_leader_is_replaced": "ack-before-fsync",
    "a_leader_that_is_cut_off_acknowledges_nothing": "mark-of-the-leader-alone",
    "a_lost_folder_empties_nobody": "missing-folder-is-new",
    "a_missing_segment_is_noticed": "missing-segment-skipped",
    "a_paused_leader_is_not_believed_when_it_wakes": "divergence-ignored",
    "a_rotten_replica_never_leads": "damage-kept-to-itself",
    "all_nodes_lose_power_at_once": "new-folders-not-synced",
    "an_unreadable_log_is_refilled": "unreadable-log-may-lead",
    "one_node_keeps_its_word_through_a_power_loss": "ack-before-fsync",
    "too_few_replicas_refuse_all_acks": "mark-with-too-few-in-sync",
    "two_full_disks_refuse_all_acks_and_keep_the_data": "full-follower-stays-in-sync",
}
"""For each scenario a planted bug that it must find: one that passes with its bug tests nothing."""


def test_every_scenario_has_a_bug_that_it_finds() -> None:
    assert sorted(BUGS) == sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("story", BUGS)
def test_a_scenario_passes(story: str) -> None:
    """`run_file` raises `Departed` at the first line with another result."""
    run_file(FOLDER / f"{story}.txt")


@pytest.mark.parametrize("story", BUGS)
def test_a_scenario_finds_its_planted_bug(story: str) -> None:
    with planted(BUGS[story]), pytest.raises(Departed):
        run_file(FOLDER / f"{story}.txt")


def test_a_failing_scenario_is_reported_with_its_line() -> None:
    with pytest.raises(Departed, match="the result was 'ok'"):
        run("cluster brokers=1 topic=orders replicas=1\nproduce orders-0 -> refused NotEnoughReplicas")


def test_one_rejected_record_determines_the_result() -> None:
    story = """
        cluster brokers=3 topic=orders replicas=3 min_isr=3
        kill 2
        until isr orders-0 = 1 3
        produce orders-0 count=3 acks=all -> ok
    """
    with pytest.raises(Departed, match="the result was 'refused NotEnoughReplicas'"):
        run(story)


def test_the_first_node_leads_the_first_partition() -> None:
    """`run` raises `Departed` at the first line with another result."""
    for seed in ("one", "two", "three"):
        run(
            "cluster brokers=3 topic=orders partitions=2\nuntil leader orders-0 = 1\nuntil leader orders-1 = 2",
            seed=seed,
        )
