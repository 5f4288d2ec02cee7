"""AlterConfigs, versions 0-2: replaces all settings of a resource; superseded by IncrementalAlterConfigs.

Settings that the request does not name return to their defaults, so clients read first and write all of them
back. Each resource succeeds or fails separately. With validate_only nothing changes. Loggers can be changed only
with IncrementalAlterConfigs. Goes to controller/settings.py. Refuses, per resource, with the controller's
error, or all of them: NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
"""

from kio.schema.alter_configs.v2.request import AlterConfigsRequest, AlterConfigsResource
from kio.schema.alter_configs.v2.response import AlterConfigsResourceResponse, AlterConfigsResponse
from kio.schema.errors import ErrorCode

from penstock.controller.settings import Change, Judge, Operation, ResourceChanges, decide_alter, refused
from penstock.handlers.support.config_rights import permitted
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_THROTTLE, int8
from penstock.metadata.image import ConfigResource
from penstock.model.errors import Refusal


async def handle(context: Context, request: Request) -> AlterConfigsResponse:
    body: AlterConfigsRequest = request.body
    everything = [_wanted(resource) for resource in body.resources]
    requested, denied = permitted(request, everything, replaced=context.quorum.image)
    try:
        results = await context.controller.run(
            lambda image: decide_alter(
                Judge(image, context.settings, context.node_id), requested, validate_only=body.validate_only
            )
        )
    except Refusal as refusal:
        results = refused(requested, refusal)
    return AlterConfigsResponse(
        throttle_time=NO_THROTTLE,
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=ErrorCode(result.code),
                error_message=result.message,
                resource_type=int8(result.resource.type),
                resource_name=result.resource.name,
            )
            for result in (*denied, *results)
        ),
    )


def _wanted(resource: AlterConfigsResource) -> ResourceChanges:
    return ResourceChanges(
        ConfigResource(resource.resource_type, resource.resource_name),
        tuple(Change(config.name, Operation.SET, config.value) for config in resource.configs),
    )
