"""The largest record batch that topics accept: `max.message.bytes`, read and raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from penstock_client.errors import PenstockClientError
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.wire import Reader, Writer

DESCRIBE_CONFIGS: Final = 32
INCREMENTAL_ALTER_CONFIGS: Final = 44
OPTION: Final = "max.message.bytes"
_TOPIC: Final = 2
_SET: Final = 0


def describe_limits(cluster: Cluster, names: Iterable[str]) -> dict[str, int]:
    """Return the limit of each topic; a topic whose settings cannot be read is left out."""
    body = Writer()
    body.array(names, lambda name: body.int8(_TOPIC).string(name).array([OPTION], body.string))
    body.boolean(False)

    def attempt() -> dict[str, int]:
        reply = cluster.any().call(DESCRIBE_CONFIGS, 1, body)
        reply.int32()
        return dict(pair for pair in reply.array(lambda: _read_limit(reply)) if pair[1] > 0)

    return cluster.retrying("reading the settings of topics", attempt)


def raise_limits(cluster: Cluster, limits: Mapping[str, int]) -> None:
    """Set the limits of topics. Raises PenstockClientError if the cluster rejects one."""
    body = Writer()

    def topic(pair: tuple[str, int]) -> None:
        body.int8(_TOPIC).string(pair[0])
        body.array([pair[1]], lambda limit: body.string(OPTION).int8(_SET).string(str(limit)))

    body.array(limits.items(), topic)
    body.boolean(False)

    def attempt() -> list[tuple[int, str | None, str]]:
        reply = cluster.any().call(INCREMENTAL_ALTER_CONFIGS, 0, body)
        reply.int32()
        return reply.array(lambda: _read_result(reply))

    for code, message, name in cluster.retrying("changing the settings of topics", attempt):
        if code:
            raise PenstockClientError(f"cannot set {OPTION} of topic {name!r}: {message or f'error {code}'}")


def _read_limit(reply: Reader) -> tuple[str, int]:
    reply.int16()
    reply.nullable_string()
    reply.int8()
    name = reply.string()
    values = reply.array(lambda: _read_value(reply))
    return name, int(values[0] or 0) if values else 0


def _read_value(reply: Reader) -> str | None:
    reply.string()
    value = reply.nullable_string()
    reply.boolean()
    reply.int8()
    reply.boolean()
    reply.array(lambda: (reply.string(), reply.nullable_string(), reply.int8()))
    return value


def _read_result(reply: Reader) -> tuple[int, str | None, str]:
    code, message = reply.int16(), reply.nullable_string()
    reply.int8()
    return code, message, reply.string()
