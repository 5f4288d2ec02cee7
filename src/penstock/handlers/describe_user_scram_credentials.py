"""DescribeUserScramCredentials, version 0: the SCRAM credentials of users. None can be created yet.

`kafka-configs --describe --entity-type users` sends it after DescribeClientQuotas. Refuses, for each requested
user: RESOURCE_NOT_FOUND; DUPLICATE_RESOURCE for a user that occurs twice.
"""

from collections import Counter

from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest
from kio.schema.describe_user_scram_credentials.v0.response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import DuplicateResource, Refusal, ResourceNotFound


async def handle(context: Context, request: Request) -> DescribeUserScramCredentialsResponse:
    body: DescribeUserScramCredentialsRequest = request.body
    counts = Counter(user.name for user in body.users or ())
    results = tuple(_result(name, _refusal(name, count)) for name, count in counts.items())
    return DescribeUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, error_code=NO_ERROR, error_message="", results=results
    )


def _refusal(name: str, count: int) -> Refusal:
    if count > 1:
        return DuplicateResource(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        )
    return ResourceNotFound(f"Attempt to describe a user credential that does not exist: {name}")


def _result(name: str, refusal: Refusal) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=name, error_code=failed(refusal), error_message=refusal.message, credential_infos=()
    )
