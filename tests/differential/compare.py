"""Comparison of two transcripts: the fields that differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.differential.session import Step
from tests.differential.volatile import Mask

ABSENT = "<absent>"
ORDER = " order"

NAMES = ("name", "topic", "api_key", "partition_index", "partition", "index", "group_id", "member_id")
"""The fields that identify an item of a list; other lists are compared by position."""

UNORDERED = (
    "api_versions ",
    "produce ",
    "describe_log_dirs ",
    "list_config_resources ",
    "delete_topics ",
    "delete_records ",
    "describe_configs ",
    "describe_groups ",
    "join_group ",
    "list_groups ",
    "delete_groups ",
    "consumer_group_describe ",
)
"""Kafka keeps these in hash maps: their order is meaningless and varies between runs."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One field of one step that differs between the brokers."""

    scenario: str
    step: str
    path: str
    left: Any
    right: Any


def report(mismatches: list[Mismatch]) -> str:
    """Format the mismatches; the same one in many steps is reported once."""
    steps: dict[tuple[str, str, str], list[str]] = {}
    for one in mismatches:
        steps.setdefault((one.path, repr(one.left), repr(one.right)), []).append(one.step)
    lines = []
    for (path, left, right), where in steps.items():
        shown = ", ".join(where[:4]) + (f" and {len(where) - 4} more" if len(where) > 4 else "")
        lines += [f"    {path}    in {shown}", f"        Kafka:    {left}", f"        Penstock: {right}"]
    return "\n".join(lines)


def compare(scenario: str, left: list[Step], right: list[Step]) -> list[Mismatch]:
    """Return every mismatch between Kafka's transcript (left) and Penstock's."""
    mismatches = []
    left_mask, right_mask = Mask(), Mask()
    for index in range(max(len(left), len(right))):
        ours = right[index] if index < len(right) else Step(ABSENT, ABSENT)
        theirs = left[index] if index < len(left) else Step(ABSENT, ABSENT)
        label = f"{index + 1}. {theirs.label if theirs.label != ABSENT else ours.label}"
        ordered = not theirs.label.startswith(UNORDERED)
        pairs = _differences(left_mask.apply(theirs.outcome), right_mask.apply(ours.outcome), "")
        for path, one, other in pairs:
            if ordered or not path.endswith(ORDER):
                mismatches.append(Mismatch(scenario, label, path, one, other))
    return mismatches


def _differences(left: Any, right: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            yield from _differences(
                left.get(key, ABSENT), right.get(key, ABSENT), f"{path}.{key}" if path else str(key)
            )
    elif isinstance(left, list) and isinstance(right, list):
        yield from _in_lists(left, right, path)
    elif left != right or type(left) is not type(right):
        yield path or "outcome", _short(left), _short(right)


def _in_lists(left: list[Any], right: list[Any], path: str) -> Iterator[tuple[str, Any, Any]]:
    """Pair items that have a name by name, all others by position."""
    left_names, right_names = [_name(one) for one in left], [_name(one) for one in right]
    if (
        None in left_names
        or None in right_names
        or len({*left_names}) != len(left)
        or len({*right_names}) != len(right)
    ):
        for index in range(max(len(left), len(right))):
            one = left[index] if index < len(left) else ABSENT
            other = right[index] if index < len(right) else ABSENT
            yield from _differences(one, other, f"{path}[{index}]")
        return
    if [name for name in left_names if name in right_names] != [name for name in right_names if name in left_names]:
        yield f"{path}{ORDER}", left_names, right_names
    for name in [*left_names, *(name for name in right_names if name not in left_names)]:
        one = left[left_names.index(name)] if name in left_names else ABSENT
        other = right[right_names.index(name)] if name in right_names else ABSENT
        yield from _differences(one, other, f"{path}[{name}]")


def _name(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    for key in NAMES:
        if item.get(key) is not None:
            return str(item[key])
    return None


def _short(value: Any) -> Any:
    text = repr(value)
    return value if len(text) <= 400 else text[:400] + "..."
