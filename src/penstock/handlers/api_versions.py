"""ApiVersions, versions 0-4: the first request of every client.

Advertises the API table of wire/api.py and, from v3, the supported and finalised features.
Before v4 the response contains no feature that allows level 0, because older Java clients reject such a
range (KIP-1022). An unknown version is answered in the format of v0 with UNSUPPORTED_VERSION and
only the versions of this API, so that the client can try again (KIP-511); its body is not decoded.
Refuses: INVALID_REQUEST for an invalid client software name or version.
"""

import re
from typing import Final

from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from penstock.controller.features import SUPPORTED, finalized_levels
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, int16, int64
from penstock.wire.api import APIS, Api, ApiKey

NAMES_SOFTWARE_FROM: Final = 3
ALLOWS_LEVEL_ZERO_FROM: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _advertised(api: Api) -> ApiVersion:
    return ApiVersion(api_key=int16(api.key), min_version=int16(api.min_version), max_version=int16(api.max_version))


_ALL: Final = tuple(_advertised(api) for api in sorted(APIS.values()))


def is_refused(version: int, body: ApiVersionsRequest | None) -> bool:
    """Return whether a request is answered with an error: an unknown version, or invalid names."""
    if body is None:
        return True
    return version >= NAMES_SOFTWARE_FROM and not (
        _SOFTWARE.fullmatch(body.client_software_name) and _SOFTWARE.fullmatch(body.client_software_version)
    )


async def handle(context: Context, request: Request) -> ApiVersionsResponse:
    version = request.header.version
    if not APIS[ApiKey.API_VERSIONS].accepts(version):
        return _refuse_version()
    body: ApiVersionsRequest = request.body
    if is_refused(version, body):
        return ApiVersionsResponse(error_code=ErrorCode.invalid_request, api_keys=(), throttle_time=NO_THROTTLE)
    image = context.quorum.image
    return ApiVersionsResponse(
        error_code=NO_ERROR,
        api_keys=_ALL,
        throttle_time=NO_THROTTLE,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=int16(levels.least), max_version=int16(levels.most))
            for name, levels in SUPPORTED.items()
            if levels.least > 0 or version >= ALLOWS_LEVEL_ZERO_FROM
        ),
        finalized_features_epoch=int64(image.offset),
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, min_version_level=int16(level), max_version_level=int16(level))
            for name, level in sorted(finalized_levels(image, context.quorum.voter_registry.kraft_version).items())
        ),
    )


def _refuse_version() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=(_advertised(APIS[ApiKey.API_VERSIONS]),),
        throttle_time=NO_THROTTLE,
    )
