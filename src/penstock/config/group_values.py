"""The value of a group's option: its own if it is set and valid, the broker's otherwise, within the broker's limits."""

from collections.abc import Mapping

from penstock.config.group import GROUP
from penstock.config.option import Value, parse
from penstock.config.settings import BrokerSettings
from penstock.model.errors import InvalidConfig


def group_value(own: Mapping[str, str], name: str) -> Value:
    """Return an option that only groups have: its own value, or the default."""
    text = own.get(name)
    if text is not None:
        try:
            return parse(GROUP[name], text, name=name)
        except InvalidConfig:
            # A node of another release may have accepted this value.
            pass
    return GROUP[name].default


def bounded_value(broker: BrokerSettings, own: Mapping[str, str], name: str) -> int:
    """Return a number that the broker has a default and limits for: `group.<name>` and its `min` and `max`."""
    value = broker.integer(f"group.{name}")
    text = own.get(name)
    if text is None:
        return value
    try:
        given = parse(GROUP[name], text, name=name)
    except InvalidConfig:
        # A node of another release may have accepted this value.
        return value
    assert isinstance(given, int)
    # The bounds may have changed since the value was set.
    kind, _, rest = name.partition(".")
    least, most = broker.integer(f"group.{kind}.min.{rest}"), broker.integer(f"group.{kind}.max.{rest}")
    return max(least, min(most, given))
