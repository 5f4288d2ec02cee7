"""ShareFetch, versions 1-2: acquires records for a member, and takes acknowledgements along.

Epoch 0 opens a share session, -1 closes it after its acknowledgements. The response waits up to max_wait_ms until a
record can be acquired in one of the session's partitions, and for the acknowledgements to be written. v2 adds the
acquire mode `record_limit` (KIP-1206) and RENEW (KIP-1222), which fetches nothing. Records are sent as slices of
files. Goes to shares/leading.py. Refuses: UNSUPPORTED_VERSION unless the feature share.version is at 1,
INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED; per partition what
the share-partition leader refuses.
"""

import asyncio
import logging
from typing import Final

from kio.schema.share_fetch.v2.request import ShareFetchRequest

from penstock.client.channel import pause
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import in_milliseconds, present
from penstock.handlers.support.fetch_rights import owner_of
from penstock.handlers.support.partition_errors import HINTED, endpoints_of, leader_hint
from penstock.handlers.support.reply import Encoded
from penstock.handlers.support.share_requests import (
    RENEW_FROM,
    PartitionId,
    acknowledge,
    acknowledgements,
    check_enabled,
    check_member,
    check_read,
    message_of,
    why_not_led,
)
from penstock.model.acl import Operation
from penstock.model.errors import (
    Corruption,
    GroupAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    Refusal,
    StorageError,
)
from penstock.replication.partition import Partition
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.errors import ShareSessionLimitReached
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH, FetchedPartition, SessionKey, ShareSession
from penstock.shares.states import SharePartitionKey
from penstock.wire.hot.share_fetch import ShareAnswer, write_response

log = logging.getLogger(__name__)

RECORD_LIMIT: Final = 1
"""The acquire mode in which no more records are acquired than were asked for."""


async def handle(context: Context, request: Request) -> Encoded:
    body: ShareFetchRequest = request.body
    try:
        check_enabled(context)
        group, member = check_member(body.group_id, body.member_id)
        if not request.may_on_group(Operation.READ, group):
            raise GroupAuthorizationFailed
        is_renewal = request.header.version >= RENEW_FROM and body.is_renew_ack
        if is_renewal:
            _check_renewal(body)
        session = _session(context, request, SessionKey(group, member))
    except ShareSessionLimitReached as refusal:
        await pause(context.clock, in_milliseconds(body.max_wait) / 1000)
        return _failed(request, refusal)
    except Refusal as refusal:
        return _failed(request, refusal)
    outcomes = acknowledge(context, request, group, member, acknowledgements(body.topics), is_renewal=is_renewal)
    fetch = _Fetch(context, request, session)
    denial: GroupAuthorizationFailed | None = None
    try:
        if not is_renewal and body.share_session_epoch != FINAL_EPOCH:
            await fetch.run()
    except GroupAuthorizationFailed as refusal:
        denial = refusal
    finally:
        results = await outcomes
    if denial is not None:
        return _failed(request, denial)
    if body.share_session_epoch == FINAL_EPOCH:
        context.shares.leader.close_session(session)
    for partition, error in results.items():
        answer = fetch.answer(partition)
        if error is not None:
            answer.acknowledge_error, answer.acknowledge_message = error.code, message_of(error)
    return _response(context, request, fetch, group)


def _check_renewal(body: ShareFetchRequest) -> None:
    """Check that a request with RENEW fetches nothing: waiting for records could take longer than the lock."""
    limits = {
        "maxBytes": body.max_bytes,
        "minBytes": body.min_bytes,
        "maxRecords": body.max_records,
        "maxWaitMs": in_milliseconds(body.max_wait),
    }
    wrong = [name for name, value in limits.items() if value]
    if wrong:
        raise InvalidRequest("".join(f"{name} must be set to 0, " for name in wrong) + "if isRenewAck is true.")


def _session(context: Context, request: Request, key: SessionKey) -> ShareSession:
    body: ShareFetchRequest = request.body
    return context.shares.leader.check_sessions().fetch(
        key,
        body.share_session_epoch,
        added=[
            FetchedPartition(present(topic.topic_id), partition.partition_index)
            for topic in body.topics
            for partition in topic.partitions
        ],
        forgotten=[
            FetchedPartition(present(topic.topic_id), index)
            for topic in body.forgotten_topics_data
            for index in topic.partitions
        ],
        has_acknowledgements=any(
            partition.acknowledgement_batches for topic in body.topics for partition in topic.partitions
        ),
        connection=request.connection,
        owner=owner_of(request.header),
    )


def _failed(request: Request, refusal: Refusal) -> Encoded:
    return Encoded(
        write_response(request.header.correlation_id, (), error_code=refusal.code, error_message=message_of(refusal))
    )


def _response(context: Context, request: Request, fetch: "_Fetch", group: str) -> Encoded:
    leaders: list[int] = []
    for answer in fetch.answers.values():
        if answer.error_code in HINTED or answer.acknowledge_error in HINTED:
            hint = leader_hint(context, answer.topic, answer.index, by_id=True)
            if hint is not None:
                answer.leader = hint
                leaders.append(hint[0])
    return Encoded(
        write_response(
            request.header.correlation_id,
            sorted(fetch.answers.values(), key=lambda answer: answer.topic),
            lock_timeout_ms=context.shares.leader.settings_of(group).lock_duration_ms,
            endpoints=endpoints_of(context, leaders, request.listener),
        )
    )


class _Fetch:
    """The acquisition of records for one request, from its first attempt until it has some or its time is over."""

    def __init__(self, context: Context, request: Request, session: ShareSession) -> None:
        self._context = context
        self._request = request
        self._body: ShareFetchRequest = request.body
        self._session = session
        self._leader = context.shares.leader
        self.answers: dict[PartitionId, ShareAnswer] = {}
        if self._body.share_session_epoch == INITIAL_EPOCH:
            # The first response names every partition, as in Kafka.
            for each in session.partitions:
                self.answer(each)
        self._woken: asyncio.Future[None] | None = None
        self._waits_on: list[Partition] = []
        self._waits_for: list[LedSharePartition] = []

    def answer(self, partition: PartitionId) -> ShareAnswer:
        answer = self.answers.get(partition)
        if answer is None:
            answer = self.answers[partition] = ShareAnswer(partition[0].bytes, partition[1])
        return answer

    async def run(self) -> None:
        clock = self._context.clock
        deadline = clock.monotonic() + in_milliseconds(self._body.max_wait) / 1000
        authorizer = self._context.authorizer
        if authorizer is not None:
            # A right that is removed stops the wait.
            authorizer.on_change.append(self._wake)
        try:
            while self._leader.is_open(self._session) and not self._attempt():
                left = deadline - clock.monotonic()
                if left <= 0:
                    return
                await self._wait(left)
                if not self._request.may_on_group(Operation.READ, self._session.key.group):
                    raise GroupAuthorizationFailed
        finally:
            if authorizer is not None:
                authorizer.on_change.remove(self._wake)
            self._leave()

    def _attempt(self) -> bool:
        """Acquire what there is; return whether the client should get a response now."""
        self._leave()
        body = self._body
        has_news = False
        records_left: int = body.max_records
        bytes_left = min(body.max_bytes, int(self._context.settings["fetch.max.bytes"]))
        partitions = self._session.rotated()
        for number, each in enumerate(partitions):
            if records_left <= 0:
                break
            # The bytes are divided evenly among the partitions that are left.
            share = max(1, bytes_left // (len(partitions) - number))
            try:
                led = self._open(each)
                if led is None:
                    continue
                limits = AcquireLimits(
                    records_max=records_left,
                    batch_size=body.batch_size,
                    is_strict=body.share_acquire_mode == RECORD_LIMIT,
                )
                acquired = led.acquire(self._session.key.member, limits, share)
            except OffsetNotAvailable:
                continue
            except Refusal as refusal:
                self._fail(each, refusal)
                has_news = True
                continue
            except (OSError, Corruption) as error:
                log.error("share fetch of %s-%d failed: %s", each.topic_id, each.partition, error)
                self._fail(each, StorageError(str(error)))
                has_news = True
                continue
            if acquired is not None:
                answer = self.answer(each)
                answer.records, answer.acquired = acquired.records, acquired.ranges
                records_left -= acquired.record_count
                bytes_left -= acquired.records.size
                has_news = True
        return has_news

    def _open(self, each: FetchedPartition) -> LedSharePartition | None:
        """Return the share partition if its state is loaded, and wait for it or its records otherwise."""
        check_read(self._context, self._request, each.topic_id)
        try:
            led = self._leader.open(SharePartitionKey(self._session.key.group, *each))
        except NotLeaderOrFollower:
            raise why_not_led(self._context, each) from None
        self._waits_for.append(led)
        led.waiters[self._wake] = None
        self._waits_on.append(led.partition)
        led.partition.waiters.add_watcher(self)
        return led if led.check() else None

    def _fail(self, each: FetchedPartition, refusal: Refusal) -> None:
        answer = self.answer(each)
        answer.error_code, answer.error_message = refusal.code, message_of(refusal)

    # -- waiting ---------------------------------------------------------------------------

    async def _wait(self, seconds: float) -> None:
        self._woken = woken = asyncio.get_running_loop().create_future()
        timer = self._context.clock.call_later(seconds, self._wake)
        try:
            await woken
        finally:
            timer.cancel()
            self._woken = None

    def _leave(self) -> None:
        for partition in self._waits_on:
            partition.waiters.remove_watcher(self)
        for led in self._waits_for:
            led.waiters.pop(self._wake, None)
        self._waits_on, self._waits_for = [], []

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def more_bytes(self, size: int) -> None:
        self._wake()

    def changed(self) -> None:
        self._wake()

    def expired(self) -> None:
        self._wake()
