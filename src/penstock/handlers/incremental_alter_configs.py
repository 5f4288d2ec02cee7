"""IncrementalAlterConfigs, versions 0-1.

Sets, deletes, appends to and subtracts from single settings; each resource succeeds or fails as a
whole, separately from the others. With validate_only nothing changes. Changes are in force when the response
is sent. Logger levels change only in this process and are not stored. Goes to
controller/settings.py. Refuses, per resource, with the controller's error, or all that are stored: NOT_CONTROLLER,
KAFKA_STORAGE_ERROR.
"""

from collections.abc import Sequence

from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.request import AlterConfigsResource, IncrementalAlterConfigsRequest
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

from penstock.config.loggers import check_level, set_level
from penstock.controller.settings import (
    Change,
    Judge,
    Operation,
    ResourceChanges,
    Result,
    decide_incremental_alter,
    refused,
)
from penstock.handlers.support.config_rights import permitted
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int8
from penstock.metadata.image import BROKER_LOGGER, ConfigResource
from penstock.model.errors import NO_ERROR, InvalidRequest, Refusal
from penstock.model.ids import NodeId, node_id_of


async def handle(context: Context, request: Request) -> IncrementalAlterConfigsResponse:
    body: IncrementalAlterConfigsRequest = request.body
    requested, denied = permitted(request, [_changes(resource) for resource in body.resources])
    stored = [changes for changes in requested if changes.resource.type != BROKER_LOGGER]
    results = iter(await _alter_stored(context, stored, validate_only=body.validate_only))
    return IncrementalAlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=(
            *map(_entity, denied),
            *(
                _entity(
                    _alter_loggers(changes, context.node_id, validate_only=body.validate_only)
                    if changes.resource.type == BROKER_LOGGER
                    else next(results)
                )
                for changes in requested
            ),
        ),
    )


async def _alter_stored(context: Context, stored: list[ResourceChanges], *, validate_only: bool) -> Sequence[Result]:
    """Change settings that the metadata log stores; without any, this node need not be the active controller."""
    if not stored:
        return ()
    try:
        return await context.controller.run(
            lambda image: decide_incremental_alter(
                Judge(image, context.settings, context.node_id), stored, validate_only=validate_only
            )
        )
    except Refusal as refusal:
        return refused(stored, refusal)


def _changes(resource: AlterConfigsResource) -> ResourceChanges:
    return ResourceChanges(
        ConfigResource(resource.resource_type, resource.resource_name),
        tuple(Change(config.name, config.config_operation, config.value) for config in resource.configs),
    )


def _alter_loggers(requested: ResourceChanges, node_id: NodeId, *, validate_only: bool) -> Result:
    """Set the levels of this process's loggers: all of them, or none if one is invalid."""
    try:
        name = requested.resource.name
        requested_id = node_id_of(name)
        if requested_id is None:
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
        if requested_id != node_id:
            raise InvalidRequest(f"Unexpected node id. Expected {node_id}, but received {name}")
        levels = [_level(change) for change in requested.changes]
        for logger, level in levels:
            check_level(logger, level)
    except Refusal as refusal:
        return Result(requested.resource, refusal.code, refusal.message)
    if not validate_only:
        for logger, level in levels:
            set_level(logger, level)
    return Result(requested.resource, NO_ERROR, None)


def _level(change: Change) -> tuple[str, str | None]:
    if change.operation == Operation.DELETE:
        return change.name, None
    if change.operation != Operation.SET:
        known = change.operation in (Operation.APPEND, Operation.SUBTRACT)
        word = Operation(change.operation).name if known else str(change.operation)
        raise InvalidRequest(f"{word} operation is not allowed for the BROKER_LOGGER resource")
    if change.value is None:
        raise InvalidRequest(f"Null value not supported for : {change.name}")
    return change.name, change.value


def _entity(result: Result) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode(result.code),
        error_message=result.message,
        resource_type=int8(result.resource.type),
        resource_name=result.resource.name,
    )
