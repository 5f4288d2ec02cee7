"""cluster move: every node of the list leads some of the partitions of a topic."""

from collections import Counter

from penstock.actions.cluster.reassignment import plan_topic
from penstock.actions.connection import Connection
from tests.cli.conftest import Run


def test_the_move_of_a_whole_topic_spreads_its_leaders(run: Run, bootstrap: str, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "6")
    moves = plan_topic(Connection(bootstrap), topic, None, (2, 3, 1))
    assert Counter(move.after[0] for move in moves) == {1: 2, 2: 2, 3: 2}
    assert moves[0].after == (2, 3, 1) and all(sorted(move.after) == [1, 2, 3] for move in moves)


def test_the_move_of_one_partition_keeps_the_order_of_the_list(run: Run, bootstrap: str, topic: str) -> None:
    run("topic", "create", topic, "--partitions", "6")
    (move,) = plan_topic(Connection(bootstrap), topic, 4, (2, 3, 1))
    assert move.after == (2, 3, 1)
