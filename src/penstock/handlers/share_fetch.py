"""ShareFetch, versions 1-2: acquires records for a member, and takes acknowledgements along.

Epoch 0 opens a share session, -1 closes it after its acknowledgements. The response waits up to max_wait_ms until a
record can be acquired in one of the session's partitions, and for the acknowledgements to be written. v2 adds the
acquire mode `record_limit` (KIP-1206) and RENEW (KIP-1222), which fetches nothing. Records are sent as slices of
files. Goes to shares/leading.py. Refuses: UNSUPPORTED_VERSION unless the feature share.version is at 1,
INVALID_REQUEST, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, SHARE_SESSION_LIMIT_REACHED; per partition what
the share-partition leader refuses. Hot, except for requests that `read_common` does not read.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import in_milliseconds, present
from penstock.handlers.support.fetch_rights import owner_of
from penstock.handlers.support.partition_errors import HINTED, endpoints_of, leader_hint
from penstock.handlers.support.reply import Encoded, Parked, Parts
from penstock.handlers.support.share_requests import (
    Outcomes,
    acknowledge,
    acknowledgements,
    check_enabled,
    check_length,
    check_member,
    check_read,
    message_of,
    why_not_led,
)
from penstock.handlers.support.throttled import charge_fetch, throttle_ms
from penstock.model.acl import Operation, ResourceType
from penstock.model.errors import (
    Corruption,
    GroupAuthorizationFailed,
    InvalidRequest,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    Refusal,
    StorageError,
)
from penstock.model.ids import TopicIdPartition
from penstock.ports.network import Connection
from penstock.quotas.limits import Client
from penstock.security.rights import Rights
from penstock.shares.acquiring import AcquireLimits
from penstock.shares.errors import ShareSessionLimitReached
from penstock.shares.led_partition import LedSharePartition
from penstock.shares.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from penstock.wire.hot.share_fetch import ShareAnswer, ShareFetchRequest, read_common, write_response

log = logging.getLogger(__name__)

RECORD_LIMIT: Final = 1
"""The acquire mode in which no more records are acquired than were asked for."""


def handle_frame(
    context: Context,
    frame: memoryview,
    header: Header,
    listener: str = "PLAINTEXT",
    connection: Connection | None = None,
) -> Parts | Parked | None:
    """Answer a common request; return None for others, which are decoded by their schema and go to `handle`."""
    request = read_common(header.version, frame, header.body_position)
    return None if request is None else _answer(context, request, header, listener, connection)


async def handle(context: Context, request: Request) -> Encoded | Parked:
    """Answer a request that was decoded by its schema."""
    reply = _answer(context, _read(request.body), request.header, request.listener, request.connection)
    return reply if isinstance(reply, Parked) else Encoded(reply)


def _read(body: Any) -> ShareFetchRequest:
    check_length(body.topics, body.forgotten_topics_data)
    return ShareFetchRequest(
        body.group_id,
        body.member_id,
        body.share_session_epoch,
        in_milliseconds(body.max_wait),
        body.min_bytes,
        body.max_bytes,
        body.max_records,
        body.batch_size,
        body.share_acquire_mode,
        body.is_renew_ack,
        added=tuple(
            TopicIdPartition(present(topic.topic_id).bytes, partition.partition_index)
            for topic in body.topics
            for partition in topic.partitions
        ),
        acknowledgements=tuple(acknowledgements(body.topics).items()),
        forgotten=tuple(
            TopicIdPartition(present(topic.topic_id).bytes, index)
            for topic in body.forgotten_topics_data
            for index in topic.partitions
        ),
    )


def _answer(
    context: Context, request: ShareFetchRequest, header: Header, listener: str, connection: Connection | None
) -> Parts | Parked:
    try:
        check_enabled(context)
        check_member(request.group_id, request.member_id)
        if not _may_read_group(header, request.group_id):
            raise GroupAuthorizationFailed
        if request.is_renewal:
            _check_renewal(request)
        session = _session(context, request, header, connection)
    except ShareSessionLimitReached as refusal:
        refused = LateRefusal(_refused(header, refusal))
        context.shares.leader.deadlines.add(context.clock.monotonic() + request.max_wait_ms / 1000, refused)
        return refused
    except Refusal as refusal:
        return _refused(header, refusal)
    return ShareFetch(context, request, header, listener, session).begin()


def _may_read_group(header: Header, group: str) -> bool:
    rights: Rights | None = header.rights
    return rights is None or rights.allows(Operation.READ, ResourceType.GROUP, group, api_key=header.api_key)


def _check_renewal(request: ShareFetchRequest) -> None:
    """Check that a request with RENEW fetches nothing: waiting for records could take longer than the lock."""
    limits = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = [name for name, value in limits.items() if value]
    if wrong:
        raise InvalidRequest("".join(f"{name} must be set to 0, " for name in wrong) + "if isRenewAck is true.")


def _session(
    context: Context, request: ShareFetchRequest, header: Header, connection: Connection | None
) -> ShareSession:
    leader, epoch = context.shares.leader, request.session_epoch
    # The limit of sessions matters only to a new one.
    sessions = leader.check_sessions() if epoch == INITIAL_EPOCH else leader.sessions
    return sessions.fetch(
        SessionKey(request.group_id, request.member_id),
        epoch,
        added=request.added,
        forgotten=request.forgotten,
        has_acknowledgements=bool(request.acknowledgements),
        connection=connection,
        owner=owner_of(header),
    )


def _refused(header: Header, refusal: Refusal) -> Parts:
    return write_response(
        header.correlation_id,
        (),
        error_code=refusal.code,
        error_message=message_of(refusal),
        throttle_ms=header.throttle_ms,
    )


class LateRefusal(Parked):
    """A refusal that is sent after the time that the client would have waited for records."""

    __slots__ = ("_refusal",)

    def __init__(self, refusal: Parts) -> None:
        super().__init__()
        self._refusal = refusal

    def expired(self) -> None:
        if not self.is_over:
            self.ready(self._refusal)


class ShareFetch(Parked):
    """One request in a session: parked until it has records or its time is over, and until its outcomes are written."""

    __slots__ = (
        "_answers",
        "_client",
        "_context",
        "_denial",
        "_header",
        "_leader",
        "_listener",
        "_outcomes",
        "_request",
        "_session",
        "_tried",
        "holds_next",
    )

    def __init__(
        self, context: Context, request: ShareFetchRequest, header: Header, listener: str, session: ShareSession
    ) -> None:
        super().__init__()
        self._context = context
        self._request = request
        self._header = header
        self._listener = listener
        self._session = session
        self._leader = context.shares.leader
        client = header.client
        self._client = None if client is None or client.fetch is None else client
        """The client, if it has a quota."""
        self._answers: dict[TopicIdPartition, ShareAnswer] = {}
        self._outcomes: Outcomes | None = None
        self._denial: Refusal | None = None
        self._tried: list[LedSharePartition] = []
        """The share partitions of the last attempt, which may have records later."""
        self.holds_next = False
        """Whether it waits for records. Requests behind it need not wait for the write of its outcomes."""

    def begin(self) -> Parts | Parked:
        """Acknowledge, then attempt to fetch; return the response, or itself if it waits for something."""
        request, session = self._request, self._session
        if request.acknowledgements:
            self._outcomes = acknowledge(
                self._context, self._header, *session.key, request.acknowledgements, is_renewal=request.is_renewal
            )
        if request.session_epoch == INITIAL_EPOCH:
            # The first response names every partition, as in Kafka.
            for each in session.partitions:
                self._answer(each)
        if not request.is_renewal and request.session_epoch != FINAL_EPOCH and not self._attempt():
            self._wait()
        if self._outcomes is not None and self._outcomes.pending:
            self._outcomes.on_written = self._end
            return self
        return self if self.holds_next else self._response()

    def _answer(self, partition: TopicIdPartition) -> ShareAnswer:
        answer = self._answers.get(partition)
        if answer is None:
            answer = self._answers[partition] = ShareAnswer(*partition)
        return answer

    # -- acquiring -------------------------------------------------------------------------

    def _attempt(self) -> bool:
        """Acquire what there is; return whether the client should get a response now."""
        client = self._client
        if client is not None and client.fetch is not None and client.fetch.debt_s(self._context.clock.monotonic()):
            # KIP-219: a client over its quota gets only the throttle time.
            return True
        # Opening them again would load them again: a load that fails immediately would be repeated without a pause.
        tried, self._tried = self._tried, []
        failed = {led.topic_id_partition: led.error for led in tried if led.error is not None} if tried else {}
        request = self._request
        has_news = False
        records_left = request.max_records
        bytes_left = min(request.max_bytes, int(self._context.settings["fetch.max.bytes"]))
        if client is not None:
            bytes_left = min(bytes_left, client.fetch_size_max)
        partitions = self._session.rotated()
        for number, each in enumerate(partitions):
            if records_left <= 0:
                break
            # The bytes are divided evenly among the partitions that are left.
            share = max(1, bytes_left // (len(partitions) - number))
            try:
                led = self._open(each, failed)
                if led is None:
                    continue
                limits = AcquireLimits(records_left, request.batch_size, request.acquire_mode == RECORD_LIMIT)
                acquired = led.acquire(request.member_id, limits, share)
            except OffsetNotAvailable:
                continue
            except Refusal as refusal:
                self._fail(each, refusal)
                has_news = True
                continue
            except (OSError, Corruption) as error:
                log.error("share fetch of %s-%d failed: %s", each.topic_id.hex(), each.partition, error)
                self._fail(each, StorageError(str(error)))
                has_news = True
                continue
            if acquired is not None:
                answer = self._answer(each)
                answer.records, answer.acquired, count = acquired
                size = acquired.records.size
                records_left -= count
                bytes_left -= size
                self._context.replicas.by_id[each.topic_id].bytes_out += size
                has_news = True
        return has_news

    def _open(self, each: TopicIdPartition, failed: Mapping[TopicIdPartition, Refusal]) -> LedSharePartition | None:
        """Return the share partition if its state is loaded.

        Raises the error of a share partition whose load failed while this fetch waited for it.
        """
        check_read(self._context, self._header, each.topic_id)
        if each in failed:
            raise failed[each]
        if not self._context.replicas.has_lease():
            # Another node may lead by now and have finished what this one would deliver.
            raise NotLeaderOrFollower
        try:
            led = self._leader.open(self._request.group_id, each)
        except NotLeaderOrFollower:
            raise why_not_led(self._context, each) from None
        self._tried.append(led)
        return led if led.check() else None

    def _fail(self, each: TopicIdPartition, refusal: Refusal) -> None:
        answer = self._answer(each)
        answer.error_code, answer.error_message = refusal.code, message_of(refusal)

    # -- waiting ---------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait for records, unless the client does not want that."""
        wait_ms = self._session.wait_ms(self._request.max_wait_ms)
        if wait_ms <= 0:
            return
        self.holds_next = True
        self._enter(())
        self._leader.deadlines.add(self._context.clock.monotonic() + wait_ms / 1000, self)
        if self._context.authorizer is not None:
            # A right that is removed ends the wait.
            self._context.authorizer.on_change.append(self.woken)

    def _enter(self, entered: Iterable[LedSharePartition]) -> None:
        """Wait in the share partitions of the last attempt, and no longer in those that it has entered before."""
        for led in entered:
            if led not in self._tried:
                led.waiters.pop(self.woken, None)
        for led in self._tried:
            led.waiters[self.woken] = None

    def woken(self, *, is_last: bool = False) -> None:
        """Attempt again, because there may be records, or the session or a right is gone."""
        if not self.holds_next:
            return
        entered = self._tried
        try:
            if self._leader.is_open(self._session):
                if not _may_read_group(self._header, self._request.group_id):
                    self._denial = GroupAuthorizationFailed()
                elif not self._attempt() and not is_last:
                    self._enter(entered)
                    return
        except Exception:
            log.exception("%r failed", self._header)
            self._leave(entered)
            self.fail()
            return
        self._leave(entered)
        self._end()

    def expired(self) -> None:
        self.woken(is_last=True)

    def abandon(self) -> None:
        super().abandon()
        self._leave(self._tried)

    def _leave(self, entered: Iterable[LedSharePartition]) -> None:
        if self.holds_next:
            self.holds_next = False
            for led in entered:
                led.waiters.pop(self.woken, None)
            if self._context.authorizer is not None:
                self._context.authorizer.on_change.remove(self.woken)

    # -- answering -------------------------------------------------------------------------

    def _end(self) -> None:
        """Answer, unless it still waits for something."""
        if self.parts is not None or self.holds_next or (self._outcomes is not None and self._outcomes.pending):
            return
        try:
            parts = self._response()
        except Exception:
            log.exception("%r failed", self._header)
            self.fail()
        else:
            self.ready(parts)

    def _charge(self, client: Client, answers: Iterable[ShareAnswer]) -> int:
        """Charge the records to the client's quota and return the throttle time."""
        size = sum(answer.records.size for answer in answers if answer.records is not None)
        wait = charge_fetch(client, size, self._context.clock, api_key=ApiKey.SHARE_FETCH)
        return max(self._header.throttle_ms, throttle_ms(wait))

    def _response(self) -> Parts:
        """Return what was fetched, and the errors of acknowledgements."""
        if self._denial is not None:
            return _refused(self._header, self._denial)
        leader, context = self._leader, self._context
        if self._request.session_epoch == FINAL_EPOCH:
            leader.close_session(self._session)
        if self._outcomes is not None:
            for partition, error in self._outcomes.results.items():
                answer = self._answer(partition)
                if error is not None:
                    answer.acknowledge_error, answer.acknowledge_message = error.code, message_of(error)
        answers = list(self._answers.values())
        if len(answers) > 1:
            answers.sort(key=lambda answer: answer.topic)
        leaders: list[int] = []
        for answer in answers:
            if answer.error_code in HINTED or answer.acknowledge_error in HINTED:
                hint = leader_hint(context, answer.topic, answer.index, by_id=True)
                if hint is not None:
                    answer.leader = hint
                    leaders.append(hint[0])
        header = self._header
        return write_response(
            header.correlation_id,
            answers,
            lock_timeout_ms=leader.settings_of(self._request.group_id).lock_duration_ms,
            throttle_ms=header.throttle_ms if self._client is None else self._charge(self._client, answers),
            endpoints=endpoints_of(context, leaders, self._listener) if leaders else (),
        )
