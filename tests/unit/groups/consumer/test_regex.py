"""Subscriptions by regular expression: RE2 syntax, whole names, matched outside the heartbeat's path."""

import pytest

from penstock.groups.consumer.commands import CONSUMER_REGEX
from penstock.groups.consumer.group import ResolvedRegex
from penstock.groups.consumer.records import ConsumerGroupRegularExpressionKey
from penstock.groups.consumer.regex import check_regex, matching
from penstock.groups.records import GroupRecord
from penstock.groups.turn import TimerKey
from penstock.model.errors import InvalidRegularExpression
from tests.unit.groups.groups_model import GROUP, GroupsModel, topic_id

FOO, FOX, BAR = topic_id("foo"), topic_id("fox"), topic_id("bar")
INVALID_REGULAR_EXPRESSION = 128


@pytest.mark.parametrize("regex", ["(", "a{1", "(?=a)", r"(a)\1", "[z-a]", "*"])
def test_expressions_that_re2_does_not_support_are_rejected(regex: str) -> None:
    if regex == "a{1":
        # A brace without a count is a literal.
        check_regex(regex)
        return
    with pytest.raises(InvalidRegularExpression, match="is not a valid regular expression"):
        check_regex(regex)


def test_an_expression_matches_whole_names() -> None:
    assert matching("fo.", ["foo", "fox", "foobar", "afoo"]) == {"foo", "fox"}
    assert matching("(", ["foo"]) == frozenset()


def test_an_expression_that_backtracks_elsewhere_matches_in_linear_time() -> None:
    assert matching("(a*)*b", ["a" * 200]) == frozenset()


def test_a_member_joins_first_and_gets_its_topics_after_the_match() -> None:
    world = GroupsModel({"foo": 1, "fox": 1, "bar": 1})
    joined = world.join("a", subscribed_topic_regex="fo.")
    assert (joined.member_epoch, joined.assignment) == (1, {})
    assert TimerKey(CONSUMER_REGEX, GROUP) in world.timers
    world.settle()
    assert world.group.resolved == {"fo.": ResolvedRegex(frozenset({"foo", "fox"}), 1, world.now)}
    assert world.group.epoch == 2
    after = world.beat("a", 1)
    assert (after.member_epoch, after.assignment) == (2, {FOO: {0}, FOX: {0}})


def test_a_second_member_with_a_known_expression_does_not_wait() -> None:
    world = GroupsModel({"foo": 2})
    world.join("a", subscribed_topic_regex="f.*")
    world.settle()
    world.beat("a", 1)
    world.join("b", subscribed_topic_regex="f.*")
    assert TimerKey(CONSUMER_REGEX, GROUP) not in world.timers
    assert sum(map(len, world.group.targets["b"].values())) == 1


def test_topic_names_and_an_expression_are_combined() -> None:
    world = GroupsModel({"foo": 1, "bar": 1})
    world.join("a", subscribed_topic_regex="f.*", subscribed_topic_names=("bar",))
    world.settle()
    assert world.beat("a", 2).assignment == {FOO: {0}, BAR: {0}}


def test_a_new_topic_is_matched_but_not_within_ten_seconds_of_the_last_match() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", subscribed_topic_regex="f.*")
    world.settle()
    world.beat("a", 1)
    world.set_topics(fox=1)
    world.beat("a", 2)
    assert TimerKey(CONSUMER_REGEX, GROUP) not in world.timers
    world.advance(10_001)
    world.beat("a", 2)
    world.settle()
    assert world.beat("a", 2).assignment == {FOO: {0}, FOX: {0}}


def test_expressions_are_matched_again_after_the_refresh_interval() -> None:
    world = GroupsModel({"foo": 1}, regex_refresh_interval_ms=20_000)
    world.join("a", subscribed_topic_regex="f.*")
    world.settle()
    world.advance(20_000)
    world.beat("a", 1)
    assert TimerKey(CONSUMER_REGEX, GROUP) not in world.timers
    world.advance(1)
    world.beat("a", 2)
    assert TimerKey(CONSUMER_REGEX, GROUP) in world.timers
    world.settle()
    assert world.group.epoch == 2, "the same topics are no reason to rebalance"


def test_an_expression_is_removed_with_its_last_member() -> None:
    world = GroupsModel({"foo": 1, "bar": 1})
    world.join("a", subscribed_topic_regex="f.*")
    world.join("b", "bar")
    world.settle()
    tombstone = GroupRecord(ConsumerGroupRegularExpressionKey(GROUP, "f.*"), None)
    world.beat("a", 1, owned={}, subscribed_topic_regex="", subscribed_topic_names=("bar",))
    assert tombstone in world.last
    assert world.group.resolved == {}
    world.beat("a", world.group.members["a"].epoch, owned={}, subscribed_topic_regex="f.*")
    world.beat("a", -1)
    assert tombstone in world.last


def test_an_invalid_expression_changes_nothing() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", subscribed_topic_regex="f.*")
    world.settle()
    before = len(world.log)
    assert world.join("b", subscribed_topic_regex="(").error == INVALID_REGULAR_EXPRESSION
    assert world.beat("a", 1, subscribed_topic_regex="[").error == INVALID_REGULAR_EXPRESSION
    assert len(world.log) == before


def test_topics_that_the_member_may_not_describe_do_not_match() -> None:
    world = GroupsModel({"foo": 1, "fox": 1})
    world.join("a", subscribed_topic_regex="f.*", describable=lambda names: names - {"fox"})
    world.settle()
    assert world.beat("a", 1).assignment == {FOO: {0}}


def test_expressions_of_a_deleted_group_are_not_matched() -> None:
    world = GroupsModel({"foo": 1})
    world.join("a", subscribed_topic_regex="f.*")
    world.beat("a", -1)
    before = len(world.log)
    world.settle()
    assert len(world.log) <= before + 1
    assert world.group.resolved == {}
