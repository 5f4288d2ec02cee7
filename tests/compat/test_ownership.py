"""Tests of the ownership record of the churn tests, which detects partitions with two owners."""

from __future__ import annotations

from tests.support.ownership import Ownership


def test_a_partition_with_two_owners_is_a_fault() -> None:
    ownership = Ownership()
    ownership.given("one", [0, 1])
    ownership.given("two", [1])
    ownership.taken("one", [0, 1])
    assert ownership.faults == ["partition 1 was given to two while one had it"]


def test_a_revoked_partition_may_be_assigned_to_another_member() -> None:
    ownership = Ownership()
    ownership.given("one", [0, 1])
    ownership.taken("one", [1])
    ownership.given("two", [1])
    assert ownership.faults == []


def test_an_expelled_member_may_notice_after_its_partitions_were_reassigned() -> None:
    ownership = Ownership()
    ownership.given("one", [0, 1])
    ownership.given("two", [1])
    ownership.lost("one", [0, 1])
    ownership.given("two", [0])
    assert ownership.faults == []


def test_an_assignment_that_a_member_reports_while_it_stops_is_ignored() -> None:
    ownership = Ownership()
    ownership.given("one", [0])
    ownership.left("one")
    ownership.given("one", [0, 1])
    ownership.given("two", [0, 1])
    assert ownership.faults == []
    assert ownership.owners == {0: "two", 1: "two"}
