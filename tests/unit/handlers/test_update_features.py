"""UpdateFeatures through its handler."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest
from kio.serial import entity_reader

from penstock.handlers import update_features
from penstock.metadata.records import FeatureLevelRecord
from penstock.metadata.voters import Voter
from penstock.model.ids import NodeId
from penstock.wire import codec
from penstock.wire.api import ApiKey
from tests.unit.handlers.fakes import FakeNode
from tests.unit.handlers.requests import SOON


async def update(node: FakeNode, *updates: tuple[str, int, int], version: int = 2, **options: Any) -> Any:
    keys: Any = tuple(
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)  # type: ignore[arg-type]
        for name, level, kind in updates
    )
    body: Any = UpdateFeaturesRequest(**{"timeout": SOON, "feature_updates": keys} | options)
    received = codec.read_request(
        ApiKey.UPDATE_FEATURES, version, codec.write_request(ApiKey.UPDATE_FEATURES, version, body)
    )
    reply = await update_features.handle(node.context, node.request(ApiKey.UPDATE_FEATURES, version, received))
    layout = codec.response_class(ApiKey.UPDATE_FEATURES, version)
    written = codec.write_response(ApiKey.UPDATE_FEATURES, version, reply)
    return entity_reader(layout)(written, 0)[0]


async def test_a_refused_update_names_the_feature_at_fault() -> None:
    reply = await update(FakeNode(), ("metadata.version", 31, 1))
    assert reply.error_code == 95
    assert reply.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update version 31 for "
        "feature metadata.version. Local controller 1 only supports versions 7-30"
    )


async def test_an_update_is_finalized_unless_it_is_only_validated() -> None:
    node = FakeNode()
    node.quorum.put([FeatureLevelRecord(name="metadata.version", feature_level=25)])
    assert (await update(node, ("metadata.version", 30, 1), validate_only=True)).error_code == 0
    assert node.image.features["metadata.version"] == 25
    assert (await update(node, ("metadata.version", 30, 1))).error_code == 0
    assert node.image.features["metadata.version"] == 30


@pytest.mark.parametrize("version", [0, 1])
async def test_older_versions_list_each_updated_feature(version: int) -> None:
    reply = await update(FakeNode(), ("metadata.version", 30, 1), version=version)
    assert [(each.feature, each.error_code, each.error_message) for each in reply.results] == [
        ("metadata.version", 0, "NONE")
    ]
    reply = await update(FakeNode(), ("nope", 1, 1), ("metadata.version", 30, 1), version=version)
    assert (reply.error_code, reply.results) == (95, ())


async def test_a_timeout_of_zero_times_out() -> None:
    reply = await update(FakeNode(), ("metadata.version", 30, 1), timeout=timedelta(0))
    assert (reply.error_code, reply.error_message) == (7, None)


async def test_the_log_names_the_voters_from_kraft_version_1_on() -> None:
    node = FakeNode()
    assert (await update(node, ("kraft.version", 1, 1), validate_only=True)).error_code == 0
    assert (await update(node, ("kraft.version", 0, 2))).error_code == 0
    assert node.quorum.voter_registry.kraft_version == 0
    assert (await update(node, ("kraft.version", 1, 1), ("group.version", 0, 2))).error_code == 0
    assert node.quorum.voter_registry.kraft_version == 1 and "group.version" not in node.image.features
    assert node.quorum.voter_registry.present == (
        Voter(id=NodeId(1), directory_id=UUID(int=1), endpoints=node.quorum.identity.endpoints()),
    )
    assert (await update(node, ("kraft.version", 1, 1))).error_code == 0
    assert (await update(node, ("kraft.version", 0, 2))).error_code == 95


async def test_an_update_that_is_refused_does_not_name_the_voters() -> None:
    node = FakeNode()
    assert (await update(node, ("kraft.version", 1, 1), ("streams.version", 1, 1))).error_code == 95
    assert node.quorum.voter_registry.kraft_version == 0
