"""DescribeUserScramCredentials, version 0: which users have SCRAM credentials, without any secret.

`kafka-configs --describe --entity-type users` sends it after DescribeClientQuotas. Without a list of users all are
returned. Reads the metadata image. Refuses, for each requested user: RESOURCE_NOT_FOUND; DUPLICATE_RESOURCE for a
user that occurs twice.
"""

from collections import Counter
from collections.abc import Mapping

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed, int8, int32
from penstock.model.errors import DuplicateResource, Refusal, ResourceNotFound

_Infos = tuple[CredentialInfo, ...]


async def handle(context: Context, request: Request) -> DescribeUserScramCredentialsResponse:
    body: DescribeUserScramCredentialsRequest = request.body
    known = _known(context)
    if not body.users:
        results = tuple(_described(name, infos) for name, infos in known.items())
    else:
        counts = Counter(user.name for user in body.users)
        results = tuple(_result(name, count, known) for name, count in counts.items())
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message="", results=results
    )


def _known(context: Context) -> dict[str, _Infos]:
    known: dict[str, _Infos] = {}
    for (name, mechanism), credential in sorted(context.quorum.image.credentials.items()):
        info = CredentialInfo(mechanism=int8(mechanism), iterations=int32(credential.iterations))
        known[name] = (*known.get(name, ()), info)
    return known


def _result(name: str, count: int, known: Mapping[str, _Infos]) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return _refused(
            name,
            DuplicateResource(f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"),
        )
    if name not in known:
        return _refused(name, ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}"))
    return _described(name, known[name])


def _described(name: str, infos: _Infos) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=name, error_code=NO_ERROR, error_message="", credential_infos=infos)


def _refused(name: str, refusal: Refusal) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=failed(refusal), error_message=refusal.message, credential_infos=()
    )
