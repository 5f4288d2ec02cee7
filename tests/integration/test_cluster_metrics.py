"""Test of the metrics of three brokers, before and after the loss of one."""

import asyncio
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.nodes import Cluster, Member
from tests.support.eventually import eventually_here

CONTROLLER = "kafka_controller_kafkacontroller_activecontrollercount"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
ELECTIONS = "kafka_controller_controllerstats_leaderelections_total"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"
LEADERS = "kafka_server_replicamanager_leadercount"


def read(member: Member) -> dict[str, float]:
    families = text_string_to_metric_families("".join(member.node.metrics.render()))
    return {sample.name: sample.value for family in families for sample in family.samples if not sample.labels}


def over(cluster: Cluster, name: str) -> float:
    return sum(read(member)[name] for member in cluster.running)


async def test_the_loss_of_a_broker_is_visible_in_metrics(tmp_path: Path) -> None:
    async with Cluster(tmp_path, broker_session_timeout_ms="2000", replica_lag_time_max_ms="2000") as cluster:
        await cluster.until_active()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        made = admin.create_topics([NewTopic("orders", 6, 3)])["orders"]
        await asyncio.to_thread(made.result, 60)
        await cluster.until_agreed()
        assert over(cluster, CONTROLLER) == 1
        await eventually_here(lambda: over(cluster, LEADERS) == 6)
        assert over(cluster, UNDER_REPLICATED) == over(cluster, OFFLINE) == 0
        active = await cluster.until_active()
        victim = next(member for member in cluster.running if member is not active)
        led = read(victim)[LEADERS]
        assert led > 0
        victim.kill()
        await eventually_here(lambda: over(cluster, UNDER_REPLICATED) == 6)
        await eventually_here(lambda: over(cluster, LEADERS) == 6)
        await eventually_here(lambda: over(cluster, CONTROLLER) == 1)
        # On a busy machine another node may have become the controller meanwhile.
        assert over(cluster, ELECTIONS) >= led
        assert over(cluster, UNCLEAN) == over(cluster, OFFLINE) == 0
        assert over(cluster, SHRINKS) > 0
