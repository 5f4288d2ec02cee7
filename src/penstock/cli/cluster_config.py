"""The settings of all brokers together, which librdkafka has no name for.

Kafka names them as a broker with an empty id, and librdkafka refuses an empty name, so these
two requests go out over a plain connection with the broker's own codecs.
"""

import struct
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from penstock.cli.checks import ANSWER_SIZE_MAX, read_exactly
from penstock.cli.client import REQUEST_TIMEOUT_S, bootstrap_addresses, connect, reach
from penstock.cli.errors import CommandError
from penstock.wire.api import ApiKey
from penstock.wire.codec import read_response, write_request
from penstock.wire.frame import parse_response_header, request_head

BROKER: Final = i8(4)
SET: Final = i8(0)
DELETE: Final = i8(1)
ALL_BROKERS: Final = ""
CLIENT_ID: Final = "penstock-cli"


def describe(bootstrap: str) -> dict[str, Any]:
    """Return the entries that are set for all brokers, shaped as the client library shapes them."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=ALL_BROKERS, configuration_keys=None)
    answer = _ask(bootstrap, ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=(resource,)))
    result = answer.results[0]
    _check(result)
    return {
        entry.name: SimpleNamespace(
            name=entry.name,
            value=entry.value,
            source=int(entry.config_source),
            is_read_only=entry.read_only,
            is_sensitive=entry.is_sensitive,
        )
        for entry in result.configs
    }


def alter(bootstrap: str, values: Mapping[str, str | None]) -> None:
    """Set each option for all brokers; None takes it back."""
    configs = tuple(
        AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in values.items()
    )
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=ALL_BROKERS, configs=configs)
    answer = _ask(
        bootstrap,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
    )
    _check(answer.responses[0])


def _ask(bootstrap: str, api_key: int, version: int, request: Any) -> Any:
    reach(bootstrap)
    host, port = bootstrap_addresses(bootstrap)[0]
    body = write_request(api_key, version, request)
    try:
        with connect(host, port) as sock:
            sock.settimeout(REQUEST_TIMEOUT_S)
            sock.sendall(request_head(api_key, version, 1, CLIENT_ID, len(body)) + body)
            (size,) = struct.unpack(">i", read_exactly(sock, 4))
            if not 0 < size <= ANSWER_SIZE_MAX:
                raise EOFError
            frame = memoryview(read_exactly(sock, size))
    except (OSError, EOFError):
        raise CommandError(f"{host}:{port} did not answer: 'penstock doctor' looks for the reason.") from None
    _, position = parse_response_header(api_key, version, frame)
    return read_response(api_key, version, frame[position:])


def _check(result: Any) -> None:
    if result.error_code.value:
        raise CommandError(f"all brokers: {result.error_message or result.error_code.name}.")
