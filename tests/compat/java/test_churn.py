"""Test of the Java client's consumers that join and leave at random, in both protocols."""

from __future__ import annotations

import threading
import time

import pytest

from penstock.testing.process import BrokerProcess
from tests.compat.churn import PARTITIONS, Stream, committed, new_target
from tests.support.group_audit import audit
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java

RECORDS = 2000


@pytest.mark.parametrize("kill", [False, True], ids=["", "through a kill"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_join_and_leave(tools: JavaTools, churn_broker: BrokerProcess, protocol: str, kill: bool) -> None:
    """The runner checks that all records are delivered and no partition has two owners in one generation."""
    seconds = 6
    target = new_target(churn_broker.bootstrap)
    stream = Stream(target, count=RECORDS, seconds=seconds)
    stream.start()

    def kill_and_start() -> None:
        time.sleep(seconds / 2)  # the members join and leave meanwhile
        churn_broker.kill()
        churn_broker.start()

    killer = threading.Thread(target=kill_and_start)
    if kill:
        killer.start()
    where = (target.bootstrap, target.topic, target.group, protocol)
    output = tools.check("GroupChurn", *where, "41", str(seconds), str(RECORDS))
    if kill:
        killer.join()
    stream.finish()
    assert output.startswith(f"seen {RECORDS} ")
    assert committed(target) == [RECORDS // PARTITIONS] * PARTITIONS
    history = audit(target.bootstrap, target.group)
    assert not history.faults, history.faults
    assert history.commits > 10 and history.generations > 3
