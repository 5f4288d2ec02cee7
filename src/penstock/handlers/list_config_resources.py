"""ListConfigResources, versions 0-1: the resources that can be configured (KIP-1142).

v0 lists only client metrics subscriptions. From v1 on an empty list of types means all of
them; topics and brokers are listed whether or not they have settings, groups and subscriptions only if
they have. Reads the image. Refuses: UNSUPPORTED_VERSION for an unknown type.
"""

from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ConfigResource as ResourceEntity
from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Image
from penstock.model.errors import UnsupportedVersion

TYPES = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


async def handle(context: Context, request: Request) -> ListConfigResourcesResponse:
    body: ListConfigResourcesRequest = request.body
    requested: set[int] = set(body.resource_types) or set(TYPES)
    if request.header.version == 0:
        requested = {CLIENT_METRICS}
    if not requested <= set(TYPES):
        return ListConfigResourcesResponse(
            throttle_time=NO_THROTTLE, error_code=failed(UnsupportedVersion()), config_resources=()
        )
    image = context.quorum.image
    return ListConfigResourcesResponse(
        throttle_time=NO_THROTTLE,
        error_code=NO_ERROR,
        config_resources=tuple(
            [
                ResourceEntity(resource_name=name, resource_type=int8(kind))
                for kind in TYPES
                if kind in requested
                async for name in request.pace.each(_names(image, kind))
            ]
        ),
    )


def _names(image: Image, kind: int) -> list[str]:
    if kind == TOPIC:
        return sorted(image.topics)
    if kind in (BROKER, BROKER_LOGGER):
        return [str(node_id) for node_id in sorted(image.brokers)]
    return sorted(resource.name for resource, values in image.configs.items() if resource.type == kind and values)
