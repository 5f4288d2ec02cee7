import pytest

from penstock.config.settings import BrokerSettings
from penstock.controller.elections import (
    PREFERRED,
    UNCLEAN,
    Elected,
    decide_balance,
    decide_elections,
    effects_of_settings,
)
from penstock.metadata.image import Image
from penstock.metadata.records import ConfigRecord
from penstock.model.errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    Refusal,
    UnknownTopicOrPartition,
)
from penstock.model.ids import NO_NODE, NodeId, TopicName
from tests.unit.controller.cluster import LEADER_RULES, apply, broker, cluster, partition, with_partition

T = TopicName("t")
ALIVE = cluster(broker(1), broker(2), broker(3))
OFF_BALANCE = with_partition(ALIVE, leader=2, replicas=(1, 2, 3))
HEADLESS = with_partition(
    cluster(broker(1, fenced=True), broker(2), broker(3)), leader=NO_NODE, replicas=(1, 2, 3), isr=(), elr=(1,)
)


def election_error(image: Image, kind: int, name: str = "t", index: int = 0) -> Refusal | None:
    (result,) = decide_elections(image, {TopicName(name): [index]}, kind, LEADER_RULES).reply
    return result.refusal


def test_the_preferred_replica_leads_again() -> None:
    decision = decide_elections(OFF_BALANCE, {T: [0]}, PREFERRED, LEADER_RULES)
    assert decision.reply == (Elected(T, 0, None),)
    assert partition(apply(OFF_BALANCE, decision.records)).leader == 1


def test_an_unclean_election_elects_any_live_replica() -> None:
    decision = decide_elections(HEADLESS, {T: [0]}, UNCLEAN, LEADER_RULES)
    now = partition(apply(HEADLESS, decision.records))
    assert (now.leader, now.isr, now.eligible_leader_replicas) == (2, (2,), ())


@pytest.mark.parametrize(
    ("image", "kind", "name", "index", "refusal"),
    [
        (with_partition(ALIVE, leader=1, replicas=(1, 2)), PREFERRED, "t", 0, ElectionNotNeeded),
        (OFF_BALANCE, UNCLEAN, "t", 0, ElectionNotNeeded),
        (with_partition(ALIVE, leader=2, replicas=(1, 2), isr=(2,)), PREFERRED, "t", 0, PreferredLeaderNotAvailable),
        (
            with_partition(cluster(broker(1, fenced=True)), leader=NO_NODE, replicas=(1,), isr=(), elr=(1,)),
            UNCLEAN,
            "t",
            0,
            EligibleLeadersNotAvailable,
        ),
        (OFF_BALANCE, PREFERRED, "u", 0, UnknownTopicOrPartition),
        (OFF_BALANCE, PREFERRED, "t", 1, UnknownTopicOrPartition),
        (OFF_BALANCE, PREFERRED, "t", -1, UnknownTopicOrPartition),
    ],
)
def test_an_impossible_election_is_refused_with_a_reason(
    image: Image, kind: int, name: str, index: int, refusal: type[Refusal]
) -> None:
    assert type(election_error(image, kind, name, index)) is refusal


def test_an_election_for_all_partitions_reports_only_those_that_needed_one() -> None:
    balanced = with_partition(ALIVE, leader=1, replicas=(1, 2))
    assert decide_elections(balanced, None, PREFERRED, LEADER_RULES).reply == ()
    assert decide_elections(OFF_BALANCE, None, PREFERRED, LEADER_RULES).reply == (Elected(T, 0, None),)


def test_an_unknown_election_type_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        decide_elections(ALIVE, None, 2, LEADER_RULES)


def test_rebalancing_moves_leaders_back_if_possible() -> None:
    decision = decide_balance(OFF_BALANCE, LEADER_RULES)
    assert partition(apply(OFF_BALANCE, decision.records)).leader == 1
    assert not decision.reply
    assert not decide_balance(HEADLESS, LEADER_RULES).records


def changed(image: Image, name: str, value: str, *, everywhere: bool = False) -> Image:
    record = ConfigRecord(
        resource_type=4 if everywhere else 2, resource_name="" if everywhere else "t", name=name, value=value
    )
    after = effects_of_settings(image, [record], BrokerSettings({"min.insync.replicas": "2"}), NodeId(1))
    return apply(image, [record, *after])


@pytest.mark.parametrize("everywhere", [False, True])
def test_allowing_unclean_elections_elects_a_leader_for_partitions_without_one(everywhere: bool) -> None:
    assert partition(changed(HEADLESS, "unclean.leader.election.enable", "true", everywhere=everywhere)).leader == 2


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_lower_min_isr_clears_the_eligible_replicas(everywhere: bool) -> None:
    image = with_partition(ALIVE, leader=1, replicas=(1, 2, 3), isr=(1,), elr=(2,))
    now = partition(changed(image, "min.insync.replicas", "1", everywhere=everywhere))
    assert now.eligible_leader_replicas == ()
    # Without a leader nothing can have been committed since then.
    assert partition(changed(HEADLESS, "min.insync.replicas", "1")).eligible_leader_replicas == (1,)


def test_other_settings_do_not_affect_partitions() -> None:
    record = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    assert effects_of_settings(OFF_BALANCE, [record], BrokerSettings(), NodeId(1)) == []
