import struct

import pytest

from penstock.actions.doctor import api_versions_request, parse_api_versions
from penstock.wire.frame import parse_header


def test_the_broker_parses_the_request() -> None:
    request = api_versions_request()
    header = parse_header(memoryview(request)[4:])
    assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
    assert (header.api_key, header.version, header.correlation_id, header.client_id) == (18, 0, 1, "penstock-doctor")


def test_version_ranges_are_parsed() -> None:
    answer = struct.pack(">ihi", 1, 0, 2) + struct.pack(">hhh", 0, 3, 13) + struct.pack(">hhh", 1, 4, 18)
    assert parse_api_versions(answer) == {0: (3, 13), 1: (4, 18)}


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack(">ihi", 2, 0, 0),
        struct.pack(">ihi", 1, 35, 0),
        struct.pack(">ihi", 1, 0, 2**31 - 1),
        struct.pack(">ihi", 1, 0, -1),
    ],
)
def test_an_invalid_response_is_rejected(answer: bytes) -> None:
    with pytest.raises(ValueError, match="not an ApiVersions response"):
        parse_api_versions(answer)
