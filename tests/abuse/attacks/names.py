"""Names of 32,767 bytes, wherever a request has a text field."""

from __future__ import annotations

import datetime
import struct
import types
import typing
import uuid
from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

from kio.index import load_request_schema

from penstock.wire.api import APIS
from tests.abuse import wire
from tests.abuse.attack import Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import in_threads
from tests.differential.entities import API_NAMES

FAMILY = "names"
SIZE_MAX = 32_767
# A JoinGroup is answered when the others have joined, which takes longer.
ANSWER_S_MAX = 0.5
# These APIs are between nodes and describe a node: with valid numbers they would take effect.
INTERNAL = {"broker_registration", "controller_registration", "envelope"}


def frames(text: str) -> dict[str, bytes]:
    """Yield a request of every version of every API that has a text field."""
    made = {}
    for api in APIS.values():
        name = API_NAMES[api.key]
        for version in range(max(api.min_version, api.accepted_from), api.max_version + 1):
            layout = load_request_schema(api.key, version)
            values = _filled(layout, text)
            if name not in INTERNAL and _has_text(values):
                made[f"{name} v{version}"] = wire.request_frame(name, version, values)
    return made


def _filled(layout: type[Any], text: str) -> dict[str, Any]:
    """Return values for all fields: the text where possible, one element in each array, zero for numbers."""
    hints = typing.get_type_hints(layout)
    return {field.name: _value(hints[field.name], text) for field in fields(layout)}


def _value(hint: Any, text: str) -> Any:
    options = [one for one in typing.get_args(hint) if one is not type(None)]
    if isinstance(hint, types.UnionType):
        return _value(options[0], text)
    if typing.get_origin(hint) is tuple:
        return [_value(options[0], text)]
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return _filled(hint, text)
    if hint is uuid.UUID:
        return uuid.UUID(int=7)
    return _plain(hint, text)


def _plain(hint: Any, text: str) -> Any:
    for kind, value in ((str, text), (bytes, b""), (bool, False), (datetime.timedelta, 1), (datetime.datetime, 0)):
        if isinstance(hint, type) and issubclass(hint, kind):
            return value
    return 0


def _has_text(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_text, value.values()))
    return any(map(_has_text, value)) if isinstance(value, list) else isinstance(value, str)


def _long_names(target: Target, gate: Gate) -> Counts:
    """Send each request at least once; a node may reject it or close the connection, but must not fail."""
    texts = ("x" * SIZE_MAX, "é" * (SIZE_MAX // 2), "../" * (SIZE_MAX // 3), "\0" * SIZE_MAX, "x" * 249, "")
    sent = [frame for text in texts[: target.of(len(texts))] for frame in frames(text).values()]

    def work(_: int, counts: Counter[str]) -> None:
        client: wire.Client | None = None
        while not gate.is_over() or not counts:
            for frame in sent:
                try:
                    client = client or wire.Client(target, timeout_s=ANSWER_S_MAX)
                    client.exchange(frame)
                    counts["answered"] += 1
                except (OSError, struct.error) as error:
                    counts["silent" if isinstance(error, TimeoutError) else "closed"] += 1
                    if client is not None:
                        client.close()
                    client = None

    return in_threads(1, work, gate)


ATTACKS = (
    Attack(
        name="long-names", family=FAMILY, run=_long_names, bounds=Bounds(files_kept=300),
        what="names of 32,767 bytes, dots and slashes, zeros and nothing, in every API that takes a name",
    ),
)  # fmt: skip
