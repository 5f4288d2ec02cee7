"""Limits on the records that a query can select, from its syntax tree, before anything is fetched.

Pure, except that the engine evaluates constants (`evaluate`). Only conditions that must hold for every row are used:
comparisons joined by AND in the WHERE of the SELECT whose FROM names the topic. The engine applies the whole WHERE
again, so a limit may be loose but never too tight.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

Node = dict[str, Any]
Evaluate = Callable[[Node, str], int | None]
"""Evaluates an expression without columns, as an integer or as milliseconds since 1970; None on failure."""

BOUNDED: Final = {"offset": "BIGINT", "timestamp": "TIMESTAMP_MS", "partition": "BIGINT"}
_MIRRORED: Final = {
    "COMPARE_GREATERTHAN": "COMPARE_LESSTHAN",
    "COMPARE_GREATERTHANOREQUALTO": "COMPARE_LESSTHANOREQUALTO",
    "COMPARE_LESSTHAN": "COMPARE_GREATERTHAN",
    "COMPARE_LESSTHANOREQUALTO": "COMPARE_GREATERTHANOREQUALTO",
    "COMPARE_EQUAL": "COMPARE_EQUAL",
}


@dataclass(frozen=True, slots=True)
class Range:
    """Integers from `least` to `most`, inclusive; None means no limit."""

    least: int | None = None
    most: int | None = None

    def cut(self, *, least: int | None = None, most: int | None = None) -> "Range":
        lows = [bound for bound in (self.least, least) if bound is not None]
        highs = [bound for bound in (self.most, most) if bound is not None]
        return Range(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    offset: Range = Range()
    timestamp: Range = Range()
    partition: Range = Range()
    partitions: frozenset[int] | None = None
    """From `partition IN (...)`; None means any."""

    def narrowed(self, column: str, cut: Range) -> "Bounds":
        present: Range = getattr(self, column)
        changes: dict[str, Any] = {column: present.cut(least=cut.least, most=cut.most)}
        return replace(self, **changes)

    def wants_partition(self, index: int) -> bool:
        least, most = self.partition.least, self.partition.most
        return (
            (self.partitions is None or index in self.partitions)
            and (least is None or index >= least)
            and (most is None or index <= most)
        )


@dataclass(slots=True, kw_only=True)
class TopicCall:
    """One `topic('name')` in a FROM: its node in the tree, and the limits on its rows."""

    holder: Node
    key: str
    name: str
    alias: str
    options: dict[str, str] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)


def topic_calls(tree: Node, evaluate: Evaluate) -> list[TopicCall]:
    """Return every call of topic() in a tree of json_serialize_sql, with the limits of its SELECT."""
    found: list[TopicCall] = []
    for select in _nodes(tree, "SELECT_NODE"):
        calls = list(_calls_in_from(select, "from_table"))
        for call in calls:
            if _is_changed(call.holder[call.key]):
                continue
            for condition in _conditions(select.get("where_clause")):
                call.bounds = _narrow(call.bounds, condition, _spellings(call, alone=len(calls) == 1), evaluate)
        found += calls
    return found


def _is_changed(table: Node) -> bool:
    """Return whether the names of the columns mean something else, or rows are sampled before the WHERE."""
    return bool(table.get("column_name_alias") or table.get("sample"))


def _calls_in_from(holder: Node, key: str) -> Iterator[TopicCall]:
    """Yield the calls in one FROM, including joins; subqueries are separate SELECTs."""
    node = holder.get(key)
    if not isinstance(node, dict):
        return
    if node.get("type") == "JOIN":
        yield from _calls_in_from(node, "left")
        yield from _calls_in_from(node, "right")
    elif node.get("type") == "TABLE_FUNCTION" and node["function"].get("function_name", "").lower() == "topic":
        names: list[str] = []
        options: dict[str, str] = {}
        for argument in node["function"]["arguments"]:
            text = _constant_text(argument["expression"])
            if argument["name"]:
                options[argument["name"].lower()] = text
            else:
                names.append(text)
        if len(names) == 1 and names[0]:
            yield TopicCall(holder=holder, key=key, name=names[0], alias=node.get("alias", ""), options=options)


def _nodes(tree: Any, kind: str) -> Iterator[Node]:
    if isinstance(tree, dict):
        if tree.get("type") == kind:
            yield tree
        for child in tree.values():
            yield from _nodes(child, kind)
    elif isinstance(tree, list):
        for child in tree:
            yield from _nodes(child, kind)


def _conditions(where: Node | None) -> Iterator[Node]:
    if where is None:
        return
    if where.get("type") == "CONJUNCTION_AND":
        for child in where["children"]:
            yield from _conditions(child)
    else:
        yield where


def _spellings(call: TopicCall, *, alone: bool) -> set[tuple[str, ...]]:
    """Return the ways to write the call's columns: an unqualified name is allowed only if there is no other topic."""
    spellings: set[tuple[str, ...]] = set()
    for column in BOUNDED:
        spellings.add((call.alias.lower() or "topic", column))
        if alone:
            spellings.add((column,))
    return spellings


def _narrow(bounds: Bounds, condition: Node, spellings: set[tuple[str, ...]], evaluate: Evaluate) -> Bounds:
    kind = condition.get("type", "")
    if kind == "COMPARE_BETWEEN":
        column = _column(condition["input"], spellings)
        if column is not None:
            low = _value(condition["lower"], column, evaluate)
            high = _value(condition["upper"], column, evaluate)
            return bounds.narrowed(column, Range(low, high))
    elif kind == "COMPARE_IN":
        first, *rest = condition["children"]
        if _column(first, spellings) == "partition":
            values = [_value(each, "partition", evaluate) for each in rest]
            if None not in values:
                chosen = frozenset(value for value in values if value is not None)
                return replace(bounds, partitions=chosen if bounds.partitions is None else bounds.partitions & chosen)
    elif kind in _MIRRORED:
        left, right = condition["left"], condition["right"]
        column = _column(left, spellings)
        if column is None:
            column, kind, right = _column(right, spellings), _MIRRORED[kind], left
        if column is not None:
            return bounds.narrowed(column, _range(kind, _value(right, column, evaluate)))
    return bounds


def _range(kind: str, value: int | None) -> Range:
    """Return a range that is loose by one at the ends, because a constant may have been rounded."""
    if value is None:
        return Range()
    if kind.startswith("COMPARE_GREATERTHAN"):
        return Range(least=value)
    if kind.startswith("COMPARE_LESSTHAN"):
        return Range(most=value)
    return Range(value, value)


def _column(node: Node, spellings: set[tuple[str, ...]]) -> str | None:
    if node.get("type") != "COLUMN_REF":
        return None
    names = tuple(name.lower() for name in node["column_names"])
    return names[-1] if names in spellings else None


def _value(node: Node, column: str, evaluate: Evaluate) -> int | None:
    if any(True for kind in ("COLUMN_REF", "SUBQUERY", "SELECT_NODE") for _ in _nodes(node, kind)):
        return None
    return evaluate(node, BOUNDED[column])


def _constant_text(node: Node) -> str:
    literal = node.get("literal") or {}
    return str(literal.get("text", ""))
