import pytest

from penstock.controller.features import (
    GROUP_VERSION,
    INITIAL,
    METADATA_VERSION,
    METADATA_VERSION_4_3,
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    FeatureUpdate,
    decide_update,
)
from penstock.metadata.image import EMPTY
from penstock.metadata.records import FeatureLevelRecord
from penstock.model.errors import InvalidUpdateVersion
from penstock.model.ids import NodeId
from tests.unit.controller.cluster import apply

FORMATTED = apply(EMPTY, [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL.items()])
ONE = NodeId(1)


def test_a_new_cluster_begins_at_the_highest_levels() -> None:
    assert INITIAL == {
        "metadata.version": 30,
        "group.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }


def test_a_cluster_from_before_consumer_groups_can_switch_them_on_and_off() -> None:
    before = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)])
    on = decide_update(before, [FeatureUpdate(name=GROUP_VERSION, level=1)], node_id=ONE).records
    assert on == [FeatureLevelRecord(name=GROUP_VERSION, feature_level=1)]
    off = FeatureUpdate(name=GROUP_VERSION, level=0, upgrade_type=SAFE_DOWNGRADE)
    image = apply(before, decide_update(apply(before, on), [off], node_id=ONE).records)
    assert GROUP_VERSION not in image.features
    with pytest.raises(InvalidUpdateVersion, match="without setting the upgrade type"):
        decide_update(apply(before, on), [FeatureUpdate(name=GROUP_VERSION, level=0)], node_id=ONE)


def test_a_level_that_is_there_already_is_fine_and_changes_nothing() -> None:
    for kind in (UPGRADE, SAFE_DOWNGRADE):
        update = FeatureUpdate(name=METADATA_VERSION, level=METADATA_VERSION_4_3, upgrade_type=kind)
        assert not decide_update(FORMATTED, [update], node_id=ONE).records


def test_an_older_cluster_can_go_up() -> None:
    older = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)])
    update = FeatureUpdate(name=METADATA_VERSION, level=30)
    assert decide_update(older, [update], node_id=ONE).records == [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=30)
    ]
    assert not decide_update(older, [update], node_id=ONE, validate_only=True).records
    with pytest.raises(InvalidUpdateVersion, match="Can't downgrade to a newer version"):
        decide_update(older, [FeatureUpdate(name=METADATA_VERSION, level=30, upgrade_type=SAFE_DOWNGRADE)], node_id=ONE)


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
def test_levels_that_cannot_be_are_refused_in_the_words_of_kafka(
    name: str, level: int, kind: int, message: str
) -> None:
    with pytest.raises(InvalidUpdateVersion) as raised:
        decide_update(FORMATTED, [FeatureUpdate(name=name, level=level, upgrade_type=kind)], node_id=ONE)
    assert raised.value.message == message


def test_one_refused_update_keeps_the_others_from_happening() -> None:
    older = apply(EMPTY, [FeatureLevelRecord(name=METADATA_VERSION, feature_level=25)])
    with pytest.raises(InvalidUpdateVersion):
        decide_update(
            older, [FeatureUpdate(name=METADATA_VERSION, level=30), FeatureUpdate(name="nope", level=1)], node_id=ONE
        )
