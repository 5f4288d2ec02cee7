"""Tests of the commands against a cluster with TLS: a proxy has the certificate and is the advertised listener."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock.testing import BrokerProcess
from penstock_spark.pipelines.store import Store
from tests.support.certificate import make_certificate
from tests.support.command import Outcome, penstock
from tests.support.ports import HOST, free_ports


class TlsProxy:
    """A TLS server that forwards decrypted data to another port."""

    def __init__(self, certificate: Path, port: int, inner_port: int) -> None:
        self._port = port
        self._inner_port = inner_port
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(certificate)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._opened = threading.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._serving: set[asyncio.Task[Any]] = set()
        self._stop: Callable[[], object] = lambda: None

    def __enter__(self) -> "TlsProxy":
        self._thread.start()
        assert self._opened.wait(60), "the proxy is not listening"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._thread.join()

    async def _run(self) -> None:
        over, loop = asyncio.Event(), asyncio.get_running_loop()
        self._stop = lambda: loop.call_soon_threadsafe(over.set)
        server = await asyncio.start_server(self._serve, HOST, self._port, ssl=self._context)
        self._opened.set()
        await over.wait()
        server.close()
        # Clients keep connections open; those not closed here would be reported as leaks later.
        for writer in self._writers:
            # Python 3.11 raises it for a connection that is already closed.
            with suppress(AttributeError):
                writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        inner_reader, inner_writer = await asyncio.open_connection(HOST, self._inner_port)
        self._writers += [writer, inner_writer]
        await asyncio.gather(_pass(reader, inner_writer), _pass(inner_reader, writer))


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def address(certificate: Path) -> Iterator[str]:
    port, inner_port = free_ports(2)
    broker = BrokerProcess({"advertised.listeners": f"PLAINTEXT://{HOST}:{port}"}, port=inner_port)
    with TlsProxy(certificate, port, inner_port), broker:
        yield f"{HOST}:{port}"


@pytest.fixture
def tls(certificate: Path, address: str, tmp_path: Path) -> Iterator["Tls"]:
    yield Tls(certificate, address, tmp_path / "client.properties")


class Tls:
    """A runner of commands with the client settings, as a file or as arguments."""

    def __init__(self, certificate: Path, address: str, file: Path) -> None:
        self.address = address
        self.properties = {"security.protocol": "SSL", "ssl.ca.location": str(certificate)}
        self.file = file
        file.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))

    def __call__(self, *words: str, given: str = "") -> Outcome:
        done = penstock(*words, "--bootstrap", self.address, "--command-config", str(self.file), given=given)
        assert done.code == 0, done.err
        return done


def test_every_command_connects(tls: Tls) -> None:
    tls("topic", "create", "orders", "--partitions", "2")
    tls("produce", "orders", given="one\ntwo\n")
    assert sorted(tls("consume", "orders", "--from", "earliest").out.split()) == ["one", "two"]
    assert "orders" in tls("topic", "list").out
    assert "orders" in tls("topic", "describe", "orders").out
    tls("group", "list")
    tls("txn", "list")
    tls("quota", "list")
    assert "every partition has a leader" in tls("doctor").out
    assert "up, controller" in tls("cluster", "status").out
    found = tls("sql", "SELECT name FROM Topic WHERE name = 'orders'", "--format", "csv")
    assert found.out.split() == ["name", "orders"]
    found = tls("sql", "SELECT value FROM topic('orders') ORDER BY value", "--format", "csv")
    assert found.out.split() == ["value", "one", "two"]


def test_properties_can_be_given_one_by_one(tls: Tls) -> None:
    words = [word for name, value in tls.properties.items() for word in ("-X", f"{name}={value}")]
    done = penstock("cluster", "nodes", "--bootstrap", tls.address, *words)
    assert done.code == 0, done.err
    assert tls.address in done.out


def test_a_client_without_tls_is_told_to_configure_it(tls: Tls) -> None:
    done = penstock("doctor", "--bootstrap", tls.address)
    assert done.code == 1
    assert "TLS" in done.out


def test_an_untrusted_certificate_is_reported(tls: Tls) -> None:
    done = penstock("cluster", "nodes", "--bootstrap", tls.address, "-X", "security.protocol=SSL")
    assert done.code == 1
    assert ": TLS with" in done.err


@pytest.mark.parametrize("how", ["spec", "--set", "--command-config"])
def test_the_dead_letters_of_a_pipeline_are_read_with_its_client_settings(tls: Tls, tmp_path: Path, how: str) -> None:
    topic = f"letters-{how.strip('-')}.dlq"
    tls("topic", "create", topic)
    tls("produce", topic, "--key", "dead", given="letter\n")
    Store(str(tmp_path / "storage")).write_state({"topics": [topic]})
    named = {f"penstock.kafka.{name}": value for name, value in tls.properties.items()}
    lines = "".join(f"  {name}: '{value}'\n" for name, value in named.items()) if how == "spec" else "  spark.a: 'b'\n"
    (tmp_path / "spark-pipeline.yml").write_text(f"name: p\nstorage: storage\nconfiguration:\n{lines}")
    more = {
        "spec": [],
        "--set": [word for name, value in named.items() for word in ("--set", f"{name}={value}")],
        "--command-config": ["--command-config", str(tls.file)],
    }
    done = penstock("pipeline", "dlq", str(tmp_path), "--bootstrap", tls.address, *more[how])
    assert done.code == 0, done.err
    assert "dead" in done.out
