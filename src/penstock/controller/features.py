"""Which cluster features this release knows, and whether their levels may change.

Pure. A level is finalised once every node can live with it; level 0 is a feature switched off.
Metadata records are written at one version each, so going down in metadata.version would lose what
they say and is refused, as Kafka refuses it. Features whose semantics are not here yet
(share groups) are neither supported nor finalised: clients switch on what they find.
Refuses: InvalidUpdateVersion.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from penstock.controller.decision import Decision
from penstock.metadata.image import Image
from penstock.metadata.records import BrokerFeature, FeatureLevelRecord
from penstock.model.errors import InvalidUpdateVersion
from penstock.model.ids import NodeId

METADATA_VERSION: Final = "metadata.version"
GROUP_VERSION: Final = "group.version"
"""Level 1 lets clients use the consumer protocol (KIP-848)."""

TRANSACTION_VERSION: Final = "transaction.version"
"""Level 1 writes flexible records, level 2 raises the epoch with each transaction (KIP-890)."""

ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"
"""Level 1 elects leaders from those who left too small an ISR (KIP-966); they are kept here at any level."""


class LevelRange(NamedTuple):
    least: int
    most: int


METADATA_VERSION_4_3: Final = 30
"""The level that Kafka calls 4.3-IV0: the record versions of metadata/records.py."""

SUPPORTED: Final[Mapping[str, LevelRange]] = MappingProxyType(
    {
        METADATA_VERSION: LevelRange(7, METADATA_VERSION_4_3),
        GROUP_VERSION: LevelRange(0, 1),
        TRANSACTION_VERSION: LevelRange(0, 2),
        ELIGIBLE_LEADER_REPLICAS_VERSION: LevelRange(0, 1),
    }
)

INITIAL: Final[Mapping[str, int]] = MappingProxyType({name: levels.most for name, levels in SUPPORTED.items()})
"""The levels of a new cluster."""

OWN_FEATURES: Final = tuple(
    BrokerFeature(name=name, min_supported_version=levels.least, max_supported_version=levels.most)
    for name, levels in SUPPORTED.items()
)
"""What a broker of this release says of itself when it registers."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int = UPGRADE


def decide_update(
    image: Image, updates: Sequence[FeatureUpdate], *, node_id: NodeId, validate_only: bool = False
) -> Decision[None]:
    """Decide on all updates together: one that is refused keeps the others from happening."""
    records = []
    for update in updates:
        _check(update, image.features.get(update.name, 0), node_id)
        if update.level != image.features.get(update.name, 0):
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return Decision(() if validate_only else records, None)


def _check(update: FeatureUpdate, level: int, node_id: NodeId) -> None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    supported = SUPPORTED.get(update.name)
    if supported is None:
        if update.level == 0:
            raise _refused(update, f"Feature {update.name} not found.")
        raise _refused(update, f"Local controller {node_id} does not support this feature.")
    if not supported.least <= update.level <= supported.most:
        raise _refused(update, f"Local controller {node_id} only supports versions {supported.least}-{supported.most}")
    if update.level > level and update.upgrade_type != UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if update.level < level:
        if update.upgrade_type == UPGRADE:
            raise _refused(
                update,
                "Can't downgrade the version of this feature without setting the upgrade type "
                "to either safe or unsafe downgrade.",
            )
        if update.name != METADATA_VERSION:
            return
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if update.upgrade_type == UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise InvalidUpdateVersion(f"Unsupported {update.name} downgrade from {level} to {update.level}. {why}")


def _refused(update: FeatureUpdate, why: str) -> InvalidUpdateVersion:
    return InvalidUpdateVersion(f"Invalid update version {update.level} for feature {update.name}. {why}")
