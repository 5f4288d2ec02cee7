"""The contents of a DescribeConfigs response: each option's value, source and synonyms.

Pure. settings.py resolves the values, and the handlers of DescribeConfigs and CreateTopics encode
these descriptions. Unknown names are left out.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from penstock.config.group import CLIENT_METRICS, GROUP
from penstock.config.no_effect import documentation
from penstock.config.option import Kind, Option, Value, parse, render
from penstock.config.settings import BrokerSettings, Source, Synonym, option_of
from penstock.config.topic import TOPIC
from penstock.model.errors import InvalidConfig

KIND_CODES: Mapping[Kind, int] = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}


class Described(NamedTuple):
    """One option of one resource, as DescribeConfigs returns it."""

    name: str
    value: str | None
    read_only: bool
    source: Source
    sensitive: bool
    kind_code: int
    synonyms: list[Synonym]
    doc: str


def describe_topic(
    settings: BrokerSettings, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """Describe the options of a topic, by their topic-level names."""
    described = []
    for name in _selected(TOPIC, names):
        option = TOPIC[name]
        if option.internal and name not in overrides:
            continue
        broker = settings.synonyms(option.name) if option.at_broker else []
        described.append(
            _overridden(option, name, overrides, settings.topic_default(option), Source.DYNAMIC_TOPIC, broker)
        )
    return described


def describe_group(
    settings: BrokerSettings, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[Described]:
    """Describe the options of a group."""
    described = []
    for name in _selected(GROUP, names):
        option = GROUP[name]
        if option.fallbacks:
            default = settings[option.fallbacks[0]]
            below = settings.synonyms(option.fallbacks[0])
        else:
            default = option.default
            below = [Synonym(name, render(option, default), Source.DEFAULT)]
        described.append(_overridden(option, name, overrides, default, Source.GROUP, below))
    return described


def describe_client_metrics(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Described]:
    """Describe the options of a client metrics subscription."""
    return [
        _overridden(option, name, overrides, option.default, Source.CLIENT_METRICS, [])
        for name, option in ((name, CLIENT_METRICS[name]) for name in _selected(CLIENT_METRICS, names))
    ]


def describe_broker(settings: BrokerSettings, names: Collection[str] | None = None) -> list[Described]:
    """Describe the options of this broker."""
    described = []
    for name in _selected(settings, names):
        option = option_of(name)
        assert option is not None, "settings hold known names only"
        synonyms = settings.synonyms(name)
        source = synonyms[0].source if synonyms else Source.DEFAULT
        if option.internal and source is Source.DEFAULT:
            continue
        described.append(_describe(option, name, settings[name], source, synonyms, read_only=not option.live))
    return described


def describe_all_brokers(overrides: Mapping[str, str], names: Collection[str] | None = None) -> list[Described]:
    """Describe only the options that were set for all brokers."""
    described = []
    for name in _selected(overrides, names):
        option = option_of(name)
        value = None if option is None else _parsed(option, name, overrides[name])
        if option is not None and value is not None:
            source = Source.DYNAMIC_DEFAULT_BROKER
            shown = None if option.sensitive else render(option, value)
            described.append(_describe(option, name, value, source, [Synonym(name, shown, source)], read_only=False))
    return described


def _overridden(
    option: Option,
    name: str,
    overrides: Mapping[str, str],
    default: Value,
    source: Source,
    below: list[Synonym],
) -> Described:
    value = _parsed(option, name, overrides[name]) if name in overrides else None
    if value is None:
        return _describe(option, name, default, below[0].source if below else Source.DEFAULT, below, read_only=False)
    own = Synonym(name, render(option, value), source)
    return _describe(option, name, value, source, [own, *below], read_only=False)


def _describe(
    option: Option, name: str, value: Value, source: Source, synonyms: list[Synonym], *, read_only: bool
) -> Described:
    shown = None if option.sensitive else render(option, value)
    kind, doc = KIND_CODES[option.kind], documentation(option)
    return Described(name, shown, read_only, source, option.sensitive, kind, synonyms, doc)


def _parsed(option: Option, name: str, text: str) -> Value:
    try:
        return parse(option, text, name=name)
    except InvalidConfig:
        return None


def _selected(known: Iterable[str], names: Collection[str] | None) -> list[str]:
    if names:
        # A request may list a thousand names.
        return sorted(frozenset(names).intersection(known))
    return sorted(known)
