"""The cluster features that this release supports, and decisions on their levels.

Pure. A level is finalised when every registered node supports it; level 0 disables a feature.
Metadata records have a single version each, so that a downgrade of metadata.version would lose
information and is refused, as in Kafka. Features that are not implemented yet
are neither supported nor finalised, because clients use every feature they find.
kraft.version is not in the image: its level tells whether the metadata log names the voters (KIP-853).
Refuses: InvalidUpdateVersion.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerFeature, FeatureLevelRecord
from penstock.model.errors import InvalidUpdateVersion
from penstock.model.ids import NodeId

METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
"""Level 1 enables the consumer group protocol (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Level 1 writes flexible records, level 2 raises the epoch with each transaction (KIP-890)."""

SHARE_VERSION: Final = "share.version"
"""Level 1 enables share groups (KIP-932)."""

ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
"""Level 1 elects leaders from replicas that left an ISR below min ISR (KIP-966); tracked here at any level."""


KRAFT_VERSION: Final = "kraft.version"
"""Level 1 writes the voters to the metadata log, so that they can be changed (KIP-853)."""


class LevelRange(NamedTuple):
    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least}-{self.most}"


DISABLED: Final = LevelRange(0, 0)


METADATA_VERSION_4_3: Final = 30
"""The level that Kafka calls 4.3-IV0: the record versions of metadata/records.py."""

SUPPORTED: Final[Mapping[str, LevelRange]] = MappingProxyType(
    {
        METADATA_VERSION: LevelRange(7, METADATA_VERSION_4_3),
        GROUP_VERSION: LevelRange(0, 1),
        TRANSACTION_VERSION: LevelRange(0, 2),
        ELIGIBLE_LEADER_REPLICAS_VERSION: LevelRange(0, 1),
        SHARE_VERSION: LevelRange(0, 1),
        KRAFT_VERSION: LevelRange(0, 1),
    }
)

INITIAL: Final[Mapping[str, int]] = MappingProxyType(
    {name: levels.most for name, levels in SUPPORTED.items() if name != KRAFT_VERSION}
)
"""The levels of a new cluster."""

OWN_FEATURES: Final = tuple(
    BrokerFeature(name=name, min_supported_version=levels.least, max_supported_version=levels.most)
    for name, levels in SUPPORTED.items()
)
"""The features that a broker of this release registers with."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int = UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftState:
    """The kraft.version of the metadata quorum."""

    level: int = 0
    unknown_voters: Collection[NodeId] = ()
    """Voters whose directory ids are not known yet; the log cannot name them."""


def decide_update(
    image: Image,
    updates: Sequence[FeatureUpdate],
    *,
    node_id: NodeId,
    kraft: KRaftState,
    validate_only: bool = False,
) -> ControllerDecision[bool]:
    """Decide on all updates together; reply whether to write the voters to the metadata log (kraft.version 1).

    If one update is refused, none is applied.
    """
    records = []
    names_voters = False
    for update in updates:
        level = kraft.level if update.name == KRAFT_VERSION else image.features.get(update.name, 0)
        _check_supported(image, update, node_id)
        _check_direction(update, level)
        if update.level == level:
            continue
        if update.name == KRAFT_VERSION:
            _check_voters(update, kraft)
            names_voters = True
        else:
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return ControllerDecision((), False) if validate_only else ControllerDecision(records, names_voters)


def finalized_levels(image: Image, kraft_level: int) -> dict[str, int]:
    """Return the finalised features and their levels by name; without features at level 0."""
    return dict(image.features) | ({KRAFT_VERSION: kraft_level} if kraft_level else {})


def _check_supported(image: Image, update: FeatureUpdate, node_id: NodeId) -> None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    for who, levels in _supporters(image, update.name, node_id):
        if not levels.least <= update.level <= levels.most:
            why = f"only supports versions {levels}" if levels.most else "does not support this feature."
            raise _refused(update, f"{who} {why}")
    if update.name not in SUPPORTED:
        raise _refused(update, f"Feature {update.name} not found.")


def _supporters(image: Image, name: str, node_id: NodeId) -> Iterator[tuple[str, LevelRange]]:
    """Yield the nodes that must support a level before it is finalised, in Kafka's order."""
    yield f"Local controller {node_id}", SUPPORTED.get(name, DISABLED)
    for broker in image.brokers.values():
        yield f"Broker {broker.node_id}", _levels_of(broker.features, name)
    for controller in image.controllers.values():
        if controller.node_id != node_id:
            yield f"Controller {controller.node_id}", _levels_of(controller.features, name)


def _levels_of(features: Sequence[BrokerFeature], name: str) -> LevelRange:
    for feature in features:
        if feature.name == name:
            return LevelRange(feature.min_supported_version, feature.max_supported_version)
    return DISABLED


def _check_direction(update: FeatureUpdate, level: int) -> None:
    if update.level > level and update.upgrade_type != UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if update.level < level:
        if update.upgrade_type == UPGRADE:
            raise _refused(
                update,
                "Can't downgrade the version of this feature without setting the upgrade type "
                "to either safe or unsafe downgrade.",
            )
        if update.name == KRAFT_VERSION:
            raise _refused(update, "Can't downgrade the version of this feature.")
        if update.name == METADATA_VERSION:
            why = (
                "Unsafe metadata downgrade is not supported in this version."
                if update.upgrade_type == UNSAFE_DOWNGRADE
                else "Refusing to perform the requested downgrade because it might delete metadata information."
            )
            raise InvalidUpdateVersion(f"Unsupported {update.name} downgrade from {level} to {update.level}. {why}")


def _check_voters(update: FeatureUpdate, kraft: KRaftState) -> None:
    if kraft.unknown_voters:
        raise InvalidUpdateVersion(
            f"Invalid upgrade of {KRAFT_VERSION} to KRAFT_VERSION_{update.level} "
            "because not all of the voters support it"
        )


def _refused(update: FeatureUpdate, why: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {update.level} for feature {update.name}. {why}")
