"""kill -9 of the active controller in the middle of a batch of ACL changes: all of them or none, on every node."""

from __future__ import annotations

import time
from random import Random
from threading import Thread

import pytest
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.static.primitive import i32

from penstock.actions.acls import create_acls, list_acls
from penstock.actions.cluster_client import open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.model.acl import Acl, Operation, PatternType, Permission, ResourceType
from penstock.security.acl_filter import AclFilter
from penstock.wire.api import ApiKey
from tests.support.eventually import eventually
from tests.support.penstock_cluster import PenstockCluster

BATCH = 900
ROUNDS = 6
LONGEST_S = 0.12
"""How long after the request the controller is killed, at most: a batch takes about half of it."""


def batch(number: int) -> list[Acl]:
    return [
        Acl(ResourceType.TOPIC, f"round-{number}-{index}", PatternType.LITERAL, f"User:u{number}", "*", Operation.READ,
            Permission.ALLOW)
        for index in range(BATCH)
    ]  # fmt: skip


class AclCluster:
    def __init__(self, cluster: PenstockCluster) -> None:
        self._cluster = cluster

    def controller(self) -> int:
        """Return the active controller, once there is one."""
        found: list[int] = []

        def is_known() -> bool:
            topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=i32(0)),))  # type: ignore[arg-type]
            try:
                with open_cluster(Connection(self._cluster.bootstrap)) as client:
                    answer = client.send_any(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest(topics=(topic,)))
            except ActionError:
                return False
            found[:] = [int(answer.topics[0].partitions[0].leader_id)] if answer.topics else []
            return bool(found) and found[0] in self._cluster.ids

        eventually(is_known, what="the election of a controller")
        return found[0]

    def count(self, node_id: int, number: int) -> int | None:
        """Return how many ACLs of a batch a node has; None if it does not answer."""
        try:
            return len(list_acls(Connection(self._cluster.address(node_id)), AclFilter(principal=f"User:u{number}")))
        except ActionError:
            return None

    def create(self, node_id: int, number: int, acknowledged: list[int]) -> None:
        try:
            create_acls(Connection(self._cluster.address(node_id)), batch(number))
        except ActionError:
            return
        acknowledged.append(number)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_batch_of_acls_survives_the_death_of_the_controller_as_a_whole_or_not_at_all() -> None:
    random = Random(5)
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    acknowledged: list[int] = []
    with PenstockCluster(properties=properties) as cluster:
        acls = AclCluster(cluster)
        for number in range(ROUNDS):
            controller = acls.controller()
            # Some requests are forwarded by another node, which survives.
            node_id = random.choice(cluster.ids)
            sender = Thread(target=acls.create, args=(node_id, number, acknowledged))
            sender.start()
            # Any moment will do: this is when the fault happens, not a wait for something.
            time.sleep(random.random() * LONGEST_S)
            cluster.kill(controller)
            sender.join()
            cluster.begin(controller)
            cluster.await_node(controller)
        acls.controller()
        for number in range(ROUNDS):
            whole = (BATCH,) if number in acknowledged else (0, BATCH)
            eventually(
                lambda whole=whole, number=number: all(acls.count(each, number) in whole for each in cluster.ids),  # type: ignore[misc]
                what=f"all or nothing of batch {number} (acknowledged: {acknowledged})",
            )
            counts = {acls.count(node_id, number) for node_id in cluster.ids}
            assert len(counts) == 1 and counts <= set(whole), counts
