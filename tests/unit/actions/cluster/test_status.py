from penstock.actions.cluster.requests import BrokerState, QuorumReplica
from penstock.actions.cluster.status import by_host, voter_state

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


def test_brokers_of_one_host_are_listed_together() -> None:
    hosts = {1: "a", 2: "b", 3: "c", 1001: "a", 1002: "b", 2001: "a"}
    brokers = [BrokerState(node_id, host, 9092, None, False) for node_id, host in hosts.items()]
    assert [each.node_id for each in by_host(brokers)] == [1, 1001, 2001, 2, 1002, 3]
