"""The check for a lost quorum, with scripted peers."""

from typing import Any

import pytest

from penstock.client.interfaces import PeerGone, PeerUnavailable
from penstock.metadata.quorum_reachability import majority_is_gone
from penstock.model.ids import NodeId

VOTERS = [NodeId(3), NodeId(1), NodeId(2)]


class Machines:
    def __init__(self, *, gone: set[int], silent: set[int]) -> None:
        self._gone, self._silent = gone, silent
        self.probed: list[NodeId] = []

    async def probe(self, node: NodeId, *, timeout_s: float) -> None:
        self.probed.append(node)
        if node in self._gone:
            raise PeerGone("connection refused")
        if node in self._silent:
            raise PeerUnavailable("no answer in time")

    async def ask(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("only probes are expected")

    version = ask_raw = ask


@pytest.mark.parametrize(
    ("own", "gone", "silent", "is_lost"),
    [
        (1, {2, 3}, set(), True),
        (1, {2}, set(), False),
        (1, {2}, {3}, False),
        (1, set(), {2, 3}, False),
        (9, {1, 2}, set(), True),
        (9, {1}, {2, 3}, False),
        (9, {1, 2, 3}, set(), True),
    ],
)
async def test_a_quorum_is_lost_when_a_majority_refuses_connections_but_not_when_it_is_silent(
    own: int, gone: set[int], silent: set[int], is_lost: bool
) -> None:
    machines = Machines(gone=gone, silent=silent)
    assert await majority_is_gone(machines, VOTERS, own=NodeId(own), timeout_s=1.0) is is_lost
    assert machines.probed == [voter for voter in (1, 2, 3) if voter != own]


async def test_a_sole_voter_is_never_lost_for_itself() -> None:
    assert not await majority_is_gone(Machines(gone=set(), silent=set()), [NodeId(1)], own=NodeId(1), timeout_s=1.0)
