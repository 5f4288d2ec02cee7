"""Decisions on changes of settings: incremental ones (KIP-339) and full replacements.

Each resource is decided separately: a refused one does not affect the others. The result is a
ConfigRecord for each value that changes. config/ validates the values; this module decides
which settings a resource may have. Commits nothing. Refuses: InvalidRequest, InvalidConfig,
InvalidTopic, UnknownTopicOrPartition, each as the result of its resource.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from penstock.config.broker import BROKER
from penstock.config.broker_security import UNKNOWN_USERS_SECRET
from penstock.config.foreign import is_meaningless, is_unsupported
from penstock.config.group import CLIENT_METRICS, GROUP, check_group
from penstock.config.option import HOUR_MS, Option, Value, parse, render
from penstock.config.settings import BrokerSettings, base_name, check_broker, option_of, resolve_topic, unknown_option
from penstock.config.topic import TOPIC
from penstock.controller.decision import ControllerDecision
from penstock.controller.elections import effects_of_settings
from penstock.metadata import image as resources
from penstock.metadata.image import ConfigResource, Image
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.model.errors import NO_ERROR, InvalidConfig, InvalidRequest, Refusal, UnknownTopicOrPartition
from penstock.model.ids import NodeId, node_id_of
from penstock.model.topic import check_name

MIN_ISR: Final = "min.insync.replicas"


class Operation(IntEnum):
    """The operations on one setting, with the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: int
    value: str | None


class ResourceChanges(NamedTuple):
    """The changes for one resource in a request."""

    resource: ConfigResource
    changes: tuple[Change, ...]


class Result(NamedTuple):
    """The outcome for one resource; the message is set only with an error."""

    resource: ConfigResource
    code: int
    message: str | None


def refused(requests: Sequence[ResourceChanges], refusal: Refusal) -> tuple[Result, ...]:
    """Return the results of requests that were all refused for the same reason."""
    return tuple(Result(request.resource, refusal.code, refusal.message) for request in requests)


@dataclass(frozen=True, slots=True)
class Judge:
    """The inputs for validating a change."""

    image: Image
    settings: BrokerSettings
    node_id: NodeId


def decide_incremental_alter(
    judge: Judge, requests: Sequence[ResourceChanges], *, validate_only: bool
) -> ControllerDecision[tuple[Result, ...]]:
    """Decide on changes of single settings; other settings of the resource are not changed."""
    return _decide(judge, requests, _apply, validate_only=validate_only)


def decide_alter(
    judge: Judge, requests: Sequence[ResourceChanges], *, validate_only: bool
) -> ControllerDecision[tuple[Result, ...]]:
    """Decide on requests with all settings of a resource: settings that are not named return to their defaults."""
    return _decide(judge, requests, _replace, validate_only=validate_only)


def _decide(
    judge: Judge,
    requests: Sequence[ResourceChanges],
    change: Callable[[Judge, ResourceChanges], dict[str, str]],
    *,
    validate_only: bool,
) -> ControllerDecision[tuple[Result, ...]]:
    counts = Counter(request.resource for request in requests)
    records: list[MetadataRecord] = []
    results = []
    for request in requests:
        resource = request.resource
        try:
            if counts[resource] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            _check_resource(judge, resource)
            _check_changes(request.changes)
            wanted = change(judge, request)
            _keep_min_isr(judge, request, wanted)
            _keep_secret(judge, request, wanted)
            _check_values(judge, resource, wanted)
        except Refusal as refusal:
            results.append(Result(resource, refusal.code, refusal.message))
            continue
        records.extend(_difference(resource, judge.image.config(resource), wanted))
        results.append(Result(resource, NO_ERROR, None))
    if validate_only:
        return ControllerDecision((), tuple(results))
    records.extend(effects_of_settings(judge.image, records, judge.settings, judge.node_id))
    return ControllerDecision(tuple(records), tuple(results))


def decide_first_settings(image: Image, settings: BrokerSettings) -> ControllerDecision[None]:
    """Write a cluster-wide min.insync.replicas, so that leaders and the controller always agree on it.

    Eligible replicas depend on it (KIP-966): a broker with another value in its file would commit records that
    the controller considers uncommitted.
    """
    records: list[MetadataRecord] = []
    all_brokers = ConfigResource(resources.BROKER, "")
    if MIN_ISR not in image.config(all_brokers):
        value = str(settings.integer(MIN_ISR))
        records.append(
            ConfigRecord(resource_type=all_brokers.type, resource_name=all_brokers.name, name=MIN_ISR, value=value)
        )
    records.extend(
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=MIN_ISR, value=None)
        for resource in sorted(image.configs)
        if resource.type == resources.BROKER and resource.name and MIN_ISR in image.config(resource)
    )
    return ControllerDecision(records, None)


def _keep_min_isr(judge: Judge, request: ResourceChanges, wanted: dict[str, str]) -> None:
    resource = request.resource
    if resource.type != resources.BROKER:
        return
    named = any(change.name == MIN_ISR for change in request.changes)
    if resource.name and named:
        raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    current = judge.image.config(resource).get(MIN_ISR)
    if not resource.name and MIN_ISR not in wanted and current is not None:
        if named:
            raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
        # Full replacements name all settings, but their senders may not know this one, which the cluster wrote itself.
        wanted[MIN_ISR] = current


def _keep_secret(judge: Judge, request: ResourceChanges, wanted: dict[str, str]) -> None:
    """Keep the cluster's secret: with a known or a removed one, logins would reveal which users exist."""
    resource = request.resource
    if resource.type != resources.BROKER:
        return
    if UNKNOWN_USERS_SECRET in {change.name for change in request.changes}:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{UNKNOWN_USERS_SECRET}]")
    current = judge.image.config(resource).get(UNKNOWN_USERS_SECRET)
    if current is not None:
        wanted[UNKNOWN_USERS_SECRET] = current


def _check_resource(judge: Judge, resource: ConfigResource) -> None:
    if resource.type == resources.TOPIC:
        if not resource.name:
            raise InvalidRequest("Default topic resources are not allowed.")
        if check_name(resource.name) not in judge.image.topics:
            raise UnknownTopicOrPartition(f"The topic '{resource.name}' does not exist.")
    elif resource.type == resources.BROKER:
        if resource.name and not _is_registered(judge.image, resource.name):
            check_node_id(resource.name, judge.node_id)
    elif resource.type == resources.CLIENT_METRICS:
        if not resource.name:
            raise InvalidRequest("Subscription name can't be empty")
    elif resource.type == resources.GROUP:
        if not resource.name:
            raise InvalidRequest("Default group resources are not allowed.")
    else:
        raise InvalidRequest(f"Unknown resource type {resource.type}")


def _is_registered(image: Image, name: str) -> bool:
    """Return whether the name is that of a registered broker, which sends its settings to the controller itself."""
    return node_id_of(name) in image.brokers


def check_node_id(name: str, node_id: NodeId) -> None:
    """Raise unless the name is this node's id: each broker validates its own settings."""
    requested = node_id_of(name)
    if requested is None:
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if requested != node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_changes(changes: Sequence[Change]) -> None:
    names = Counter(change.name for change in changes)
    if len(names) != len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    null = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if null:
        raise InvalidRequest(f"Null value not supported for : {','.join(null)}")


def _replace(_: Judge, request: ResourceChanges) -> dict[str, str]:
    return {change.name: change.value for change in request.changes if change.value is not None}


def _apply(judge: Judge, request: ResourceChanges) -> dict[str, str]:
    """Return all settings of the resource after the changes."""
    wanted = dict(judge.image.config(request.resource))
    for change in request.changes:
        if change.operation == Operation.SET:
            wanted[change.name] = change.value or ""
        elif change.operation == Operation.DELETE:
            wanted.pop(change.name, None)
        elif change.operation in (Operation.APPEND, Operation.SUBTRACT):
            wanted[change.name] = _edit_list(judge, request.resource, wanted, change)
        else:
            raise InvalidRequest(f"Unknown operation type {change.operation}")
    return wanted


def _edit_list(judge: Judge, resource: ConfigResource, wanted: Mapping[str, str], change: Change) -> str:
    option = _option(resource, change.name)
    if option is None:
        raise InvalidConfig(f"Unknown config name: {change.name}")
    if option.kind != "list":
        raise InvalidConfig(
            f"Can't {Operation(change.operation).name} to key {change.name} because its type is not LIST."
        )
    current = wanted.get(change.name)
    if current is None:
        current = render(option, _default(judge, resource, option)) or ""
    words = _words(current)
    given = _words(change.value or "")
    if change.operation == Operation.APPEND:
        words += [word for word in given if word not in words]
    else:
        words = [word for word in words if word not in given]
    return ",".join(words)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text.strip() else []


def _option(resource: ConfigResource, name: str) -> Option | None:
    if resource.type == resources.TOPIC:
        return TOPIC.get(name)
    if resource.type == resources.BROKER:
        return option_of(name)
    return (GROUP if resource.type == resources.GROUP else CLIENT_METRICS).get(name)


def _default(judge: Judge, resource: ConfigResource, option: Option) -> Value:
    if resource.type == resources.TOPIC:
        return judge.settings.topic_default(option)
    # A broker's own list starts from the value for all brokers, or from the one in its file.
    value: Value = (
        judge.settings.get(option.name, option.default) if resource.type == resources.BROKER else option.default
    )
    return value


def _check_values(judge: Judge, resource: ConfigResource, wanted: Mapping[str, str]) -> None:
    if resource.type == resources.TOPIC:
        resolve_topic(judge.settings, wanted)
    elif resource.type == resources.BROKER:
        _check_broker_values(judge, resource, wanted)
    elif resource.type == resources.GROUP:
        _check_group_values(judge, wanted)
    else:
        _check_client_metrics_values(wanted)


def _check_broker_values(judge: Judge, resource: ConfigResource, wanted: Mapping[str, str]) -> None:
    _check_broker_names(resource, wanted)
    try:
        for name, text in wanted.items():
            option = option_of(name)
            assert option is not None, "the names are checked above"
            parse(option, text, name=name)
        cluster = wanted if not resource.name else judge.image.config(ConfigResource(resources.BROKER, ""))
        own = wanted if resource.name else judge.image.config(ConfigResource(resources.BROKER, str(judge.node_id)))
        check_broker(judge.settings.with_dynamic(cluster=cluster, node=own))
    except InvalidConfig as problem:
        # Kafka's brokers answer INVALID_REQUEST for brokers, and INVALID_CONFIG for topics.
        raise InvalidRequest(problem.message) from None


def _check_broker_names(resource: ConfigResource, names: Mapping[str, str]) -> None:
    for name in names:
        if option_of(name) is None:
            # Kafka accepts any name here, but a misspelled one would never have an effect.
            if is_meaningless(name) or is_unsupported(base_name(name)):
                raise InvalidRequest(f"{name} is an option of Kafka that has no effect in Penstock")
            raise InvalidRequest(unknown_option("Unknown broker config name", name))
    fixed = [name for name in sorted(names) if BROKER[base_name(name)].scope == "read-only"]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    single = [name for name in sorted(names) if BROKER[base_name(name)].scope == "per-broker"]
    if single and not resource.name:
        raise InvalidRequest(
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(single)}]"
        )


def _check_group_values(judge: Judge, wanted: Mapping[str, str]) -> None:
    values: dict[str, Value] = {
        name: judge.settings[option.fallbacks[0]] if option.fallbacks else option.default
        for name, option in GROUP.items()
    }
    for name, text in wanted.items():
        if name not in GROUP:
            raise InvalidConfig(f"Unknown group config name: {name}")
        values[name] = parse(GROUP[name], text)
    check_group(values, judge.settings)


def _check_client_metrics_values(wanted: Mapping[str, str]) -> None:
    for name, text in wanted.items():
        if name not in CLIENT_METRICS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
        value = parse(CLIENT_METRICS[name], text)
        if name == "interval.ms" and isinstance(value, int) and not 100 <= value <= HOUR_MS:
            raise InvalidRequest(f"Invalid value {value} for {name}, interval must be between 100 and 3600000 (1 hour)")


def _difference(
    resource: ConfigResource, current: Mapping[str, str], wanted: Mapping[str, str]
) -> list[MetadataRecord]:
    """Return the records for the difference between the current and the wanted settings."""
    names = [*(name for name in current if name not in wanted), *wanted]
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=wanted.get(name))
        for name in names
        if current.get(name) != wanted.get(name)
    ]
