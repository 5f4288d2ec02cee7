from typing import Any

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from penstock.handlers import api_versions
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from tests.unit.handlers.fakes import FakeNode


async def ask(name: str = "tests", software_version: str = "1.0", *, version: int = 4) -> Any:
    body = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    return await FakeNode().ask(api_versions.handle, ApiKey.API_VERSIONS, body, version=version)


@pytest.mark.parametrize("version", range(5))
async def test_the_table_of_apis_is_advertised(version: int) -> None:
    reply = await ask(version=version)
    assert reply.error_code == 0
    assert {each.api_key: (each.min_version, each.max_version) for each in reply.api_keys} == {
        api.key: (api.min_version, api.max_version) for api in APIS.values()
    }


async def test_features_are_returned_with_the_offset_at_which_they_were_finalized() -> None:
    node = FakeNode()
    body = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    reply = await node.ask(api_versions.handle, ApiKey.API_VERSIONS, body)
    assert [(each.name, each.min_version, each.max_version) for each in reply.supported_features] == [
        ("metadata.version", 7, 30),
        ("group.version", 0, 1),
        ("transaction.version", 0, 2),
        ("eligible.leader.replicas.version", 0, 1),
        ("share.version", 0, 1),
        ("kraft.version", 0, 1),
    ]
    assert [(each.name, each.min_version_level, each.max_version_level) for each in reply.finalized_features] == [
        ("eligible.leader.replicas.version", 1, 1),
        ("group.version", 1, 1),
        ("metadata.version", 30, 30),
        ("share.version", 1, 1),
        ("transaction.version", 2, 2),
    ]
    assert reply.finalized_features_epoch == node.image.offset
    assert not reply.zk_migration_ready
    older = await node.ask(api_versions.handle, ApiKey.API_VERSIONS, body, version=3)
    assert [each.name for each in older.supported_features] == ["metadata.version"]
    assert len(older.finalized_features) == 5


@pytest.mark.parametrize(
    ("name", "software_version", "fine"),
    [
        ("librdkafka", "2.15.0", True),
        ("a", "b", True),
        ("apache-kafka-java", "4.3.1", True),
        ("bad name", "1", False),
        ("", "1", False),
        ("-x", "1", False),
        ("x.", "1", False),
        ("x", "", False),
        ("x\n", "1", False),
    ],
)
async def test_client_software_must_have_a_valid_name_and_version(name: str, software_version: str, fine: bool) -> None:
    reply = await ask(name, software_version)
    assert (reply.error_code, bool(reply.api_keys)) == ((0, True) if fine else (42, False))


async def test_the_versions_without_software_names_do_not_check_them() -> None:
    assert (await ask("", "", version=2)).error_code == 0


@pytest.mark.parametrize("version", [5, 32767, -1])
async def test_an_unknown_version_is_answered_as_version_0_with_the_known_ones(version: int) -> None:
    node = FakeNode()
    reply = await api_versions.handle(node.context, node.request(ApiKey.API_VERSIONS, version, None))
    written = codec.write_response(ApiKey.API_VERSIONS, 0, reply)
    assert written.hex() == "0023" + "00000001" + "0012" + "0000" + "0004"
