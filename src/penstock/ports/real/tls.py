"""TLS for the network port: OpenSSL contexts, their renewal when files change, and encrypted sockets.

`TlsSocket` has the methods of a socket that connection.py uses, on MemoryBIO and SSLObject: many TLS records per
system call, and no call blocks. Contexts issue no session tickets: a ticket would stay valid after its client's
certificate has expired. Raises TlsError.
"""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, cast

from penstock.ports.network import Renewed, TlsError, TlsSettings, TlsStore
from penstock.ports.offload import Offload
from penstock.ports.real.c_library import create_memory_file
from penstock.ports.real.store_process import Identity, load_in_child
from penstock.ports.real.stores import KeyPair, Stores, is_quick_to_load, load_stores
from penstock.ports.real.tls_records import HANDSHAKE, TlsRecords

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 1.0
"""How often the files of a context are checked for changes."""
PLAIN_SIZE_MAX: Final = 128 * 1024
"""How much is encrypted at a time: a peer that does not read makes this node hold no more."""
RECORDS_PER_READ_MAX: Final = 256
"""How many records are decrypted before other connections get a turn."""
HANDSHAKE_RECORDS_MAX: Final = 256
RECORDS_WITHOUT_DATA_MAX: Final = 64
"""How many records without data a peer may send between two responses: a request for new keys is rare."""
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

Stamp = tuple[tuple[str, int, int], ...]


class TlsState(NamedTuple):
    """The OpenSSL side of one connection, before it has a socket."""

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    ssl: ssl.SSLObject
    is_server: bool


class Reloads:
    """The work of loading certificates again, off the event loop, and the count of its failures."""

    def __init__(self, offload: Offload) -> None:
        self._offload = offload
        self.failure_count = 0

    def run(self, load: Callable[[], Any], done: Callable[[Any], None], failed: Callable[[TlsError], None]) -> None:
        def ended(loaded: Any, problem: BaseException | None) -> None:
            if problem is None:
                done(loaded)
                return
            self.failure_count += 1
            failed(problem if isinstance(problem, TlsError) else TlsError(_explain(problem)))

        self._offload.run(load, ended)


class ServerTls:
    """The context of a listener. Its files are loaded again when they change."""

    def __init__(self, settings: TlsSettings, reloads: Reloads) -> None:
        self._settings = settings
        self._reloads = reloads
        self._stamp = _stamp(settings)
        self._context, self._key = _server_context(settings, load_stores(settings))
        self._checked_at = 0.0

    def wrap(self, now: float) -> TlsState:
        """Return the state of a new connection."""
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            stamp = _stamp(self._settings)
            if stamp != self._stamp:
                # Noted first: a file that cannot be loaded is tried again only when it has changed again.
                self._stamp = stamp
                self.renew(self._settings, _log_failure)
        return _state(self._context, None)

    def renew(self, settings: TlsSettings, done: Renewed) -> None:
        """Use other settings, or changed files, for new connections; `done` gets the error, later."""
        stamp = _stamp(settings)

        def load() -> tuple[ssl.SSLContext, KeyPair]:
            if (settings.trust_store is None) != (self._settings.trust_store is None):
                raise TlsError("a trust store cannot be added or removed while the node runs")
            loaded = load_in_child(settings, self._key)
            if loaded.before is not None and loaded.after is not None:
                _check_names(settings, loaded.before, loaded.after)
            return _server_context(settings, loaded.stores)

        def use(loaded: tuple[ssl.SSLContext, KeyPair]) -> None:
            self._settings, self._stamp = settings, stamp
            self._context, self._key = loaded
            log.info("loaded the certificate of a listener again")
            done(None)

        self._reloads.run(load, use, done)


class ClientTls:
    """The context of connections to other nodes. Its files are loaded again when they change."""

    def __init__(self, settings: TlsSettings, reloads: Reloads) -> None:
        self._settings = settings
        self._reloads = reloads
        self._stamp: Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._waiting: list[asyncio.Future[None]] = []

    async def wrap(self, host: str) -> TlsState:
        """Return the state of a new connection. Only the first waits until the files are loaded. Raises TlsError."""
        stamp = _stamp(self._settings)
        if stamp != self._stamp:
            self._stamp = stamp
            self._reloads.run(partial(_load_client_context, self._settings), self._use, self._failed)
        if self._context is None:
            loaded = asyncio.get_running_loop().create_future()
            self._waiting.append(loaded)
            await loaded
        assert self._context is not None, "it is loaded"
        return _state(self._context, host)

    def _use(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._release(None)

    def _failed(self, problem: TlsError) -> None:
        if self._context is None:
            self._stamp = None  # try again for the next connection
        else:
            _log_failure(problem)
        self._release(problem)

    def _release(self, problem: TlsError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.done():
                continue  # its connection is no longer wanted
            if problem is None:
                each.set_result(None)
            else:
                each.set_exception(problem)


class TlsSocket:
    """A connected socket with TLS."""

    __slots__ = (
        "_cipher",
        "_handshake_records",
        "_has_decrypted",
        "_owed",
        "_raw",
        "_records",
        "_records_without_data",
        "_seen",
        "_tls",
        "has_pending",
        "is_ready",
    )

    def __init__(self, raw: socket.socket, tls: TlsState) -> None:
        self._raw = raw
        self._tls = tls
        self._records = TlsRecords()
        self._handshake_records = self._records_without_data = 0
        self._cipher: bytes | memoryview = b""
        self._owed = 0
        self._seen = self._has_decrypted = False
        self.has_pending = False
        """Whether there may be more data to read, which the loop does not notice."""
        self.is_ready = False
        """Whether the handshake has ended."""

    def fileno(self) -> int:
        return self._raw.fileno()

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self._raw.getsockname()
        return name

    @property
    def unsent(self) -> int:
        """Return the size of the encrypted bytes that the peer has not read yet."""
        return len(self._cipher)

    def peer_certificate(self) -> bytes | None:
        return self._tls.ssl.getpeercert(True) if self.is_ready else None

    def handshake(self) -> bool:
        """Continue the handshake with what has arrived; return whether it has ended. Raises TlsError."""
        try:
            while True:
                try:
                    self._tls.ssl.do_handshake()
                except ssl.SSLWantReadError:
                    self._send_handshake()
                except (ssl.SSLError, ValueError) as error:
                    # The alert that tells the peer why.
                    with contextlib.suppress(OSError):
                        self._send_handshake()
                    raise TlsError(_explain(error)) from None
                else:
                    self._send_handshake()
                    self.is_ready = self.has_pending = True
                    return True
                if not self._receive_handshake():
                    return False
        finally:
            self._records.keep()

    def _receive_handshake(self) -> bool:
        """Give OpenSSL the next record; return False if it has not arrived yet."""
        record = self._records.next()
        while record is None:
            try:
                count = self._records.receive(self._raw)
            except (BlockingIOError, InterruptedError):
                return False
            if count == 0:
                if not self._seen:
                    raise ConnectionAbortedError("the peer only checked whether the port is open")
                raise TlsError("the peer closed the connection during the TLS handshake")
            if not self._seen:
                self._seen = True
                if self._tls.is_server and not self._records.begins_with(HANDSHAKE):
                    raise TlsError("it sends plain text, but this listener expects TLS")
            record = self._records.next()
        self._handshake_records += 1
        if self._handshake_records > HANDSHAKE_RECORDS_MAX:
            raise TlsError("the TLS handshake consists of too many records")
        self._tls.incoming.write(record)
        return True

    def _send_handshake(self) -> None:
        data = self._tls.outgoing.read()
        if data and self._raw.send(data) < len(data):
            raise TlsError("the peer does not read the TLS handshake")

    def recv_into(self, view: memoryview) -> int:
        """Read what has arrived, as a socket does; 0 is the end of the connection. Raises TlsError.

        OpenSSL is called only when it has a whole record: an error that says it needs more costs as much as decrypting
        a few kilobytes.
        """
        records = self._records
        try:
            return self._decrypt(view)
        finally:
            records.keep()
            self.has_pending = self._has_decrypted or records.has_next()

    def _decrypt(self, view: memoryview) -> int:
        tls, incoming, records = self._tls.ssl, self._tls.incoming, self._records
        # With a buffer it returns a count.
        read = cast(Callable[[int, memoryview], int], tls.read)
        got, size = 0, len(view)
        records_left = RECORDS_PER_READ_MAX
        while got < size and records_left:
            if not self._has_decrypted:
                record = records.next()
                if record is None:
                    if got:
                        break
                    if not records.receive(self._raw):
                        return 0
                    continue
                incoming.write(record)
                records_left -= 1
            try:
                count = read(size - got, view[got:] if got else view)
            except ssl.SSLWantReadError:
                self._has_decrypted = False
                self._count_without_data()
                continue
            except ssl.SSLZeroReturnError:
                count = 0
            except ssl.SSLError as error:
                raise TlsError(f"its TLS records are not accepted: {_explain(error)}") from None
            if not count:
                self._has_decrypted = True  # the next call finds the end again
                break
            got += count
            # If there was room for more, the record has been read to its end.
            self._has_decrypted = got == size and tls.pending() > 0
        return got

    def _count_without_data(self) -> None:
        self._records_without_data += 1
        if self._records_without_data > RECORDS_WITHOUT_DATA_MAX:
            raise TlsError("it sends TLS records without data")

    def recv(self, size: int) -> bytes:
        data = bytearray(size)
        return bytes(data[: self.recv_into(memoryview(data))])

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt and send; return how much of the data was sent.

        Raises BlockingIOError if the peer is full. The next call must begin with the same bytes, even if they were
        encrypted already: they count as sent when all that was encrypted is sent.
        """
        if not self._owed:
            if not len(data):
                return 0
            self._records_without_data = 0
            self._owed = self._tls.ssl.write(memoryview(data)[:PLAIN_SIZE_MAX])
            self._cipher = self._tls.outgoing.read()
        sent = self._raw.send(self._cipher)
        if sent < len(self._cipher):
            self._cipher = memoryview(self._cipher)[sent:]
            raise BlockingIOError
        owed, self._owed, self._cipher = self._owed, 0, b""
        return owed

    @property
    def is_owing(self) -> bool:
        return self._owed > 0

    def sendmsg(self, buffers: "list[bytes | bytearray | memoryview]", _: object = (), flags: int = 0) -> int:
        if self._owed:
            return self.send(b"")
        # One record for many small parts; a record for each would cost more than the copy.
        gathered: list[bytes | bytearray | memoryview] = []
        size = 0
        for each in buffers:
            gathered.append(each)
            size += len(each)
            if size >= PLAIN_SIZE_MAX:
                break
        return self.send(b"".join(gathered))

    def close(self) -> None:
        """Tell the peer that this is the end, if that does not block, and close the socket."""
        if self.is_ready and not self._owed:
            with contextlib.suppress(OSError):
                self._tls.ssl.unwrap()
            with contextlib.suppress(OSError):
                self._raw.send(self._tls.outgoing.read())
        self._raw.close()


def _state(context: ssl.SSLContext, server_name: str | None) -> TlsState:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    is_server = server_name is None
    wrapped = context.wrap_bio(incoming, outgoing, server_side=is_server, server_hostname=server_name)
    return TlsState(incoming, outgoing, wrapped, is_server)


def _server_context(settings: TlsSettings, stores: Stores) -> tuple[ssl.SSLContext, KeyPair]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert settings.key_store is not None and stores.key is not None, "a listener needs a certificate"
    _restrict(context, settings)
    _load_pair(context, stores.key, settings.key_store)
    context.num_tickets = 0
    if settings.client_auth != "none":
        assert settings.trust_store is not None, "certificates are verified against a trust store"
        context.verify_mode = ssl.CERT_REQUIRED if settings.client_auth == "required" else ssl.CERT_OPTIONAL
    _load_trust(context, settings, stores)
    return context, stores.key


def _load_client_context(settings: TlsSettings) -> ssl.SSLContext:
    stores = load_stores(settings) if is_quick_to_load(settings) else load_in_child(settings).stores
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.checks_host_name
    _restrict(context, settings)
    if settings.trust_store is None:
        context.load_default_certs()
    _load_trust(context, settings, stores)
    if settings.key_store is not None and stores.key is not None:
        _load_pair(context, stores.key, settings.key_store)
    return context


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = sorted(_VERSIONS[name] for name in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION


def _load_pair(context: ssl.SSLContext, pair: KeyPair, store: TlsStore) -> None:
    where = store.location or "ssl.keystore.key"
    # OpenSSL reads keys from files only; this one is in memory, and nobody else can open it.
    fd = create_memory_file("key")
    try:
        os.write(fd, pair.pem)
        # A function, because OpenSSL would ask on the terminal for the password of a key that needs one.
        context.load_cert_chain(f"/proc/self/fd/{fd}", password=lambda: pair.password or "")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise TlsError(
            f"Cannot use the key and certificate in {where}: {_explain(error)}. Check that the file has a private key "
            "followed by its certificates, and ssl.key.password"
        ) from None
    finally:
        os.close(fd)


def _load_trust(context: ssl.SSLContext, settings: TlsSettings, stores: Stores) -> None:
    if settings.trust_store is None or stores.authorities is None:
        return
    try:
        context.load_verify_locations(cadata=stores.authorities)
    except (ssl.SSLError, ValueError) as error:
        where = settings.trust_store.location or "ssl.truststore.certificates"
        raise TlsError(f"Cannot use the certificates in {where}: {_explain(error)}") from None


def _stamp(settings: TlsSettings) -> Stamp:
    """Return what changes when a file of the settings changes."""
    found = []
    for store in (settings.key_store, settings.trust_store):
        if store is not None and store.location is not None:
            try:
                status = os.stat(store.location)
                found.append((store.location, status.st_mtime_ns, status.st_size))
            except OSError:
                found.append((store.location, 0, 0))
    return tuple(found)


def _check_names(settings: TlsSettings, before: Identity, after: Identity) -> None:
    """Check that a new certificate is for the same node (KIP-978)."""
    if before.subject != after.subject and not settings.allows_other_name:
        raise TlsError(
            f"the new certificate is for {after.subject}, not for {before.subject}: set ssl.allow.dn.changes=true"
        )
    missing = before.hosts - after.hosts
    if missing and not settings.allows_fewer_hosts:
        raise TlsError(f"the new certificate is not for {', '.join(sorted(missing))}: set ssl.allow.san.changes=true")


def _log_failure(problem: TlsError | None) -> None:
    if problem is not None:
        log.error("cannot load the changed certificate, the present one stays in use: %s", problem)


def _explain(error: BaseException) -> str:
    """Return OpenSSL's reason in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
