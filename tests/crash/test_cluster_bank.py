"""The bank on three nodes: coordinators and leaders move while nodes and workers are killed.

Each round writes more transfers and kills, stops or pauses one node, usually one that is a coordinator.
`PENSTOCK_BANK_ROUNDS` sets the number of rounds.
"""

from __future__ import annotations

import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.crash import bank_worker
from tests.crash.bank_worker import PARTITIONS
from tests.crash.test_bank import (
    ACCOUNTS,
    PATIENCE_S,
    ROUNDS,
    SETTINGS,
    TRANSFERS_PER_ROUND,
    Bank,
    Reader,
    check,
    is_at_rest,
)
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster

HELD_S = 3.0


def disturb(cluster: PenstockCluster, random: Random, reader: Reader) -> None:
    """Disturb a node; return when it serves again. The others have not waited for it."""
    node = random.choice(cluster.ids)
    fate = random.choice(["kill", "kill", "stop", "hold"])
    if fate == "hold":
        cluster.pause(node)
        reader.watch(random.uniform(0.1, HELD_S))
        cluster.resume(node)
        return
    if fate == "kill":
        cluster.kill(node)
    else:
        cluster.stop(node)
    reader.watch(random.uniform(0, 2))
    cluster.begin(node)
    deadline = time.monotonic() + PATIENCE_S
    while not cluster.is_ready(node):
        assert time.monotonic() < deadline, cluster.log(node)[-2000:]
        reader.watch(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600 + 10 * ROUNDS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_money_is_neither_lost_nor_created_while_coordinators_move(tmp_path: Path, protocol: str) -> None:
    random = Random(protocol)
    with PenstockCluster(properties=SETTINGS) as cluster:
        bank = Bank(cluster, protocol, tmp_path)
        bank.open_accounts()
        reader = Reader(cluster.bootstrap)
        try:
            for _ in range((ROUNDS + 5) // 6):
                bank.staff()
                bank.order(TRANSFERS_PER_ROUND)
                reader.watch(random.uniform(0.3, 1.2))
                bank.disturb()
                bank.staff()
                disturb(cluster, random, reader)
            bank.finish()
            bank.wake()
            entries = ACCOUNTS + 3 * len(bank.transfers)
            deadline = time.monotonic() + PATIENCE_S
            while len(reader.seen) < entries:
                assert time.monotonic() < deadline, f"{len(reader.seen)} of {entries} in time"
                bank.staff()
                reader.watch(0.2)
        finally:
            bank.dismiss()
        eventually(lambda: is_at_rest(cluster.bootstrap))
        reader.watch(0.5)
        late = Reader(cluster.bootstrap)
        while len(late.at_end) < 2 * PARTITIONS:
            late.watch(0.2)
        assert late.seen == reader.seen, "a late reader must see the same records"
        check(reader.seen, bank.transfers)
        shown = {entry["txn"] for entry in reader.seen.values()}
        assert not shown & bank.noted("aborted"), "aborted records must never be visible"
        assert bank.noted("committed") <= shown, "committed records are missing"
        assert bank.noted("aborted") and bank.noted("committed")
        assert bank.exits.keys() <= {bank_worker.FENCED, bank_worker.LOST, -signal.SIGKILL}, bank.exits
        late.close()
        reader.close()
        for node in cluster.ids:
            assert "Traceback" not in cluster.log(node), cluster.log(node)
