"""The settings of all brokers together, which librdkafka has no name for.

Kafka names them as a broker with an empty id, and librdkafka refuses an empty name, so these
two requests go out over direct.py.
"""

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

from penstock.cli.direct import ask
from penstock.cli.errors import CommandError
from penstock.wire.api import ApiKey

BROKER: Final = i8(4)
SET: Final = i8(0)
DELETE: Final = i8(1)
ALL_BROKERS: Final = ""


def describe(bootstrap: str) -> dict[str, Any]:
    """Return the entries that are set for all brokers, shaped as the client library shapes them."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=ALL_BROKERS, configuration_keys=None)
    answer = ask(bootstrap, ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=(resource,)))
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
    answer = ask(
        bootstrap,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
    )
    _check(answer.responses[0])


def _check(result: Any) -> None:
    if result.error_code.value:
        raise CommandError(f"all brokers: {result.error_message or result.error_code.name}.")
