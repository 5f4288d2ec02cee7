from uuid import UUID

import pytest

from penstock.controller.decision import ControllerDecision
from penstock.controller.features import (
    GROUP_VERSION,
    INITIAL,
    KRAFT_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_3,
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    KRaftState,
    decide_update,
    finalized_levels,
)
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import (
    BrokerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from penstock.model.errors import InvalidUpdateVersion
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import apply

FORMATTED = apply(EMPTY, [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()])
ONE = NodeId(1)


def decide(
    update: FeatureUpdate,
    *,
    image: Image = FORMATTED,
    kraft: KRaftState = KRaftState(),  # noqa: B008
    validate_only: bool = False,
) -> ControllerDecision[bool]:
    return decide_update(image, [update], node_id=ONE, kraft=kraft, validate_only=validate_only)


def test_a_new_cluster_begins_at_the_highest_levels() -> None:
    assert INITIAL == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
        "share.version": 1,
    }


def test_a_cluster_from_before_consumer_groups_can_switch_them_on_and_off() -> None:
    before = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)])
    on = decide_update(before, [FeatureUpdate(name=GROUP_VERSION, level=1)], node_id=ONE, kraft=KRaftState()).records
    assert on == [FeatureLevelRecord(name=GROUP_VERSION, feature_level=1)]
    off = FeatureUpdate(name=GROUP_VERSION, level=0, upgrade_type=SAFE_DOWNGRADE)
    image = apply(before, decide_update(apply(before, on), [off], node_id=ONE, kraft=KRaftState()).records)
    assert GROUP_VERSION not in image.features
    with pytest.raises(InvalidUpdateVersion, match="without setting the upgrade type"):
        decide_update(apply(before, on), [FeatureUpdate(name=GROUP_VERSION, level=0)], node_id=ONE, kraft=KRaftState())


def test_a_level_that_is_already_set_changes_nothing() -> None:
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        update = FeatureUpdate(name=METADATA_VERSION, level=METADATA_VERSION_4_3, upgrade_type=kind)
        assert not decide_update(FORMATTED, [update], node_id=ONE, kraft=KRaftState()).records


def test_an_older_cluster_can_be_upgraded() -> None:
    older = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)])
    update = FeatureUpdate(name=METADATA_VERSION, level=30)
    assert decide_update(older, [update], node_id=ONE, kraft=KRaftState()).records == [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)
    ]
    assert not decide_update(older, [update], node_id=ONE, kraft=KRaftState(), validate_only=True).records
    with pytest.raises(InvalidUpdateVersion, match="Can't downgrade to a newer version"):
        decide_update(
            older,
            [FeatureUpdate(name=METADATA_VERSION, level=30, upgrade_type=SAFE_DOWNGRADE)],
            node_id=ONE,
            kraft=KRaftState(),
        )


@pytest.mark.parametrize(
    ("name", "level", "kind", "message"),
    [
        (
            METADATA_VERSION,
            31,
            UPGRADE,
            "Invalid update version 31 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
        (
            METADATA_VERSION,
            0,
            SAFE_DOWNGRADE,
            "Invalid update version 0 for feature metadata.version. Local controller 1 only supports versions 7-30",
        ),
        (
            METADATA_VERSION,
            29,
            SAFE_DOWNGRADE,
            "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because "
            "it might delete metadata information.",
        ),
        (
            METADATA_VERSION,
            29,
            UNSAFE_DOWNGRADE,
            "Unsupported metadata.version downgrade from 30 to 29. Unsafe metadata downgrade is not supported in this "
            "version.",
        ),
        (
            METADATA_VERSION,
            29,
            UPGRADE,
            "Invalid update version 29 for feature metadata.version. Can't downgrade the version of this feature "
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            METADATA_VERSION,
            -1,
            UPGRADE,
            "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0.",
        ),
        (
            METADATA_VERSION,
            30,
            0,
            "Invalid update version 30 for feature metadata.version. The controller does not support the given "
            "upgrade type.",
        ),
        (
            "nope",
            1,
            UPGRADE,
            "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.",
        ),
        ("nope", 0, UPGRADE, "Invalid update version 0 for feature nope. Feature nope not found."),
    ],
)
def test_invalid_levels_are_refused_with_kafkas_messages(name: str, level: int, kind: int, message: str) -> None:
    with pytest.raises(InvalidUpdateVersion) as raised:
        decide_update(
            FORMATTED, [FeatureUpdate(name=name, level=level, upgrade_type=kind)], node_id=ONE, kraft=KRaftState()
        )
    assert raised.value.message == message


def test_one_refused_update_prevents_all_others() -> None:
    older = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)])
    with pytest.raises(InvalidUpdateVersion):
        decide_update(
            older,
            [FeatureUpdate(name=METADATA_VERSION, level=30), FeatureUpdate(name="nope", level=1)],
            node_id=ONE,
            kraft=KRaftState(),
        )


def test_unimplemented_features_are_refused_like_unsupported_ones_in_kafka() -> None:
    name = "streams.version"
    with pytest.raises(InvalidUpdateVersion) as raised:
        decide(FeatureUpdate(name=name, level=1))
    assert raised.value.message == (
        f"Invalid update version 1 for feature {name}. Local controller 1 does not support this feature."
    )


def test_a_level_is_finalised_only_if_every_registered_node_supports_it() -> None:
    old = (BrokerFeature(name=METADATA_VERSION, min_supported_version=7, max_supported_version=25),)
    two = RegisterBrokerRecord(broker_id=2, incarnation_id=UUID(int=2), broker_epoch=2, end_points=(), features=old)
    image = apply(FORMATTED, [two])
    with pytest.raises(InvalidUpdateVersion, match=r"Broker 2 does not support this feature\.$"):
        decide(FeatureUpdate(name=KRAFT_VERSION, level=1), image=image)
    older = apply(image, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=20)])
    with pytest.raises(InvalidUpdateVersion, match=r"Broker 2 only supports versions 7-25$"):
        decide(FeatureUpdate(name=METADATA_VERSION, level=30), image=older)
    assert decide(FeatureUpdate(name=METADATA_VERSION, level=25), image=older).records

    three = RegisterControllerRecord(controller_id=3, incarnation_id=UUID(int=3), end_points=(), features=())
    with pytest.raises(InvalidUpdateVersion, match=r"Controller 3 does not support this feature\.$"):
        decide(FeatureUpdate(name=KRAFT_VERSION, level=1), image=apply(FORMATTED, [three]))
    one = RegisterControllerRecord(controller_id=1, incarnation_id=UUID(int=3), end_points=(), features=())
    assert decide(FeatureUpdate(name=KRAFT_VERSION, level=1), image=apply(FORMATTED, [one])).reply


def test_kraft_version_is_upgraded_once_without_a_metadata_record() -> None:
    up = FeatureUpdate(name=KRAFT_VERSION, level=1)
    decision = decide(up)
    assert (decision.reply, decision.records) == (True, [])
    assert not decide(up, validate_only=True).reply
    assert not decide(up, kraft=KRaftState(level=1)).reply


def test_kraft_version_is_refused_while_directory_ids_of_voters_are_unknown() -> None:
    waiting = KRaftState(unknown_voters=[NodeId(2)])
    for validate_only in (False, True):
        with pytest.raises(InvalidUpdateVersion) as raised:
            decide(FeatureUpdate(name=KRAFT_VERSION, level=1), kraft=waiting, validate_only=validate_only)
        assert raised.value.message == (
            "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters support it"
        )


@pytest.mark.parametrize(
    ("present", "level", "kind", "why"),
    [
        (1, 0, SAFE_DOWNGRADE, "Can't downgrade the version of this feature."),
        (1, 0, UNSAFE_DOWNGRADE, "Can't downgrade the version of this feature."),
        (0, 1, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        (1, 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
    ],
)
def test_kraft_version_is_never_downgraded(present: int, level: int, kind: int, why: str) -> None:
    with pytest.raises(InvalidUpdateVersion) as raised:
        decide(FeatureUpdate(name=KRAFT_VERSION, level=level, upgrade_type=kind), kraft=KRaftState(level=present))
    assert raised.value.message == f"Invalid update version {level} for feature kraft.version. {why}"


def test_finalised_features_include_kraft_version_from_level_1_on() -> None:
    assert KRAFT_VERSION not in finalized_levels(FORMATTED, 0)
    assert finalized_levels(FORMATTED, 1) == {**INITIAL, KRAFT_VERSION: 1}
