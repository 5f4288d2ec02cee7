"""Test of a client that exceeds its request quota."""

import socket
import time

from kio.schema.api_versions.v3.request import ApiVersionsRequest

from penstock.testing import Broker
from penstock.wire.api import ApiKey
from penstock.wire.codec import read_response, write_request
from penstock.wire.frame import parse_response_header, request_head
from tests.support.command import penstock


def request(line: socket.socket) -> tuple[int, float, float]:
    """Return the throttle time in ms, and the times of the request and of the response."""
    body = write_request(
        ApiKey.API_VERSIONS, 3, ApiVersionsRequest(client_software_name="t", client_software_version="1")
    )
    begun = time.monotonic()
    line.sendall(request_head(ApiKey.API_VERSIONS, 3, 1, "busy", len(body)) + body)
    stream = line.makefile("rb")
    frame = memoryview(stream.read(int.from_bytes(stream.read(4), "big")))
    _, position = parse_response_header(ApiKey.API_VERSIONS, 3, frame)
    answer = read_response(ApiKey.API_VERSIONS, 3, frame[position:])
    return int(answer.throttle_time.total_seconds() * 1000), begun, time.monotonic()


def test_a_client_above_its_request_quota_is_throttled_and_muted() -> None:
    with Broker() as broker:
        penstock("quota", "set", "--client-id", "busy", "request_percentage=0.05", "--bootstrap", broker.bootstrap)
        responses: list[tuple[int, float, float]] = []
        with socket.create_connection((broker.host, broker.port), timeout=60) as line:
            while len(responses) < 100 and (len(responses) < 2 or not responses[-2][0]):
                responses.append(request(line))
        throttle_ms, sent_at, _ = responses[-2]
        assert 0 < throttle_ms <= 1000, responses
        assert responses[-1][2] - sent_at >= throttle_ms / 1000 - 0.02, responses
