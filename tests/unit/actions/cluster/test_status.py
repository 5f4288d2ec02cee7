from penstock.actions.cluster.requests import QuorumReplica
from penstock.actions.cluster.status import voter_state

NOW_MS = 1_000_000.0


def voter(node_id: int, last_fetch_ms: int) -> QuorumReplica:
    return QuorumReplica(node_id, True, 10, 0, last_fetch_ms)


def test_a_controller_that_fetches_is_up() -> None:
    assert voter_state(voter(2, 999_000), 1, NOW_MS) == "up"


def test_a_controller_that_stopped_fetching_is_silent() -> None:
    assert voter_state(voter(2, 980_000), 1, NOW_MS) == "silent for 20 s"


def test_a_controller_that_never_fetched_is_not_up() -> None:
    assert voter_state(voter(3, -1), 1, NOW_MS) == "not heard of"


def test_the_leader_of_the_quorum_is_up() -> None:
    assert voter_state(voter(1, -1), 1, NOW_MS) == "up, controller"
