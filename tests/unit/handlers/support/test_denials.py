"""Responses to requests that are denied as a whole."""

from typing import Any

import pytest

from penstock.handlers.support.context import Request
from penstock.handlers.support.denials import denied
from penstock.handlers.support.registry import COLD
from penstock.model.errors import ClusterAuthorizationFailed
from penstock.security.principal import user
from penstock.security.rights import Authorizer
from penstock.wire import codec
from penstock.wire.api import APIS, Api, ApiKey
from penstock.wire.frame import Header, parse_header, response_head
from tests.differential.entities import API_NAMES, read_response, request_frame
from tests.unit.handlers.fakes import FakeNode

CODE = ClusterAuthorizationFailed.code
TOPICS = {"name": "t", "topic": "t", "partitions": [0], "partition_indexes": [0]}
BODIES: dict[str, dict[str, Any]] = {
    "create_acls": {"creations": [{"resource_type": 2}]},
    "delete_acls": {"filters": [{"resource_type_filter": 2}]},
    "alter_replica_log_dirs": {"dirs": [{"path": "/", "topics": [TOPICS]}]},
    "elect_leaders": {"topic_partitions": [TOPICS]},
    "alter_partition_reassignments": {"topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
    "list_partition_reassignments": {"topics": [TOPICS]},
    "alter_client_quotas": {"entries": [{"entity": [{"entity_type": "user", "entity_name": "a"}]}]},
    "describe_user_scram_credentials": {"users": [{"name": "a"}]},
    "alter_user_scram_credentials": {"deletions": [{"name": "a", "mechanism": 1}]},
    **{
        f"{verb}_share_group_state{what}": {"topics": [{"partitions": [{"partition": 0}]}]}
        for verb, what in (("initialize", ""), ("read", ""), ("write", ""), ("delete", ""), ("read", "_summary"))
    },
    "write_txn_markers": {"markers": [{"producer_id": 1, "topics": [TOPICS]}]},
}
"""The entries of requests whose error is in each result."""

WHOLE = [
    (api, version) for api in APIS.values() if api.requires.is_whole for version in range(20) if api.accepts(version)
]


def parsed(api: Api, version: int) -> Request:
    name = API_NAMES[api.key]
    frame = memoryview(request_frame(name, version, BODIES.get(name, {})))[4:]
    header: Header = parse_header(frame)
    connection: Any = None
    return Request(header, codec.read_request(api.key, version, frame[header.body_position :]), connection)


def codes(value: Any) -> set[str]:
    """Return all error codes in a response."""
    if isinstance(value, list):
        return set().union(*map(codes, value))
    if not isinstance(value, dict):
        return set()
    found = {field for name, field in value.items() if name == "error_code"}
    return found.union(*(codes(field) for field in value.values()))


@pytest.mark.parametrize(("api", "version"), WHOLE)
async def test_every_version_of_a_guarded_api_is_denied_in_its_own_format(api: Api, version: int) -> None:
    request = parsed(api, version)
    authorizer = Authorizer()
    authorizer.load([])
    request.header.rights = authorizer.rights(user("nobody"), "10.0.0.1")
    response = await COLD[api.key](FakeNode().context, request)
    assert response == denied(request)
    body = codec.write_response(api.key, version, response)
    frame = response_head(api.key, version, 7, len(body)) + body
    read = read_response(API_NAMES[api.key], version, frame[4:])
    # The first versions of DescribeLogDirs have no error code: as in Kafka, there are no results.
    expected = (
        set() if api.key == ApiKey.DESCRIBE_LOG_DIRS and version < 3 else {f"{CODE} cluster_authorization_failed"}
    )
    assert codes(read) == expected, read
