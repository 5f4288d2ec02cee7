"""penstock demo: run a broker, a producer of sample orders and a Spark pipeline, and print its results.

Each part is a separate process, so that one can fail without the others. The broker accepts clients from its ready
line on, while Spark is installed and started. Ctrl-C stops the processes in order, the broker last.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.errors import CommandError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

EXAMPLE = "Example: penstock demo --data ./data --port 9092"
NEEDED = ("pyspark", "pyarrow", "deltalake", "yaml")
STOP_S = 90.0
SUMMARY_EVERY_S = 10.0


def demo(
    context: typer.Context,
    data: Annotated[Path, typer.Option("--data", "-d", metavar="DIR", help="Data folder.")] = Path("./data"),
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 9092,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            "--pipeline",
            metavar="DIR",
            help="Folder of the pipeline, with a generate.py in it.",
            show_default="the orders example",
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", min=0.1, metavar="N", help="Number of orders per second.")] = 20.0,
    set_up: Annotated[
        str | None, typer.Option("--set-up", metavar="COMMAND", help="Command that installs Spark if it is missing.")
    ] = None,
) -> None:
    """Run a broker with a sample producer and a Spark pipeline.

    Other options are passed to the broker, as for 'penstock start'.
    """
    pipeline = pipeline or _orders_pipeline()
    if not (pipeline / "generate.py").is_file():
        raise CommandError(f"{pipeline} has no generate.py. Pass the folder of a demo pipeline with --pipeline.")
    running = Demo(data, pipeline, rate)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: running.stop())
    try:
        running.start_broker(["--port", str(port), *context.args])
        running.start_orders()
        running.start_spark(set_up)
        running.watch()
    finally:
        running.end()


class Demo:
    """The processes of a demo, in the order in which they start."""

    def __init__(self, data: Path, pipeline: Path, rate: float) -> None:
        self._data, self._pipeline, self._rate = data, pipeline, rate
        self._folder = data.with_name(data.name + "-demo")
        self._stopping = threading.Event()
        self._broker: subprocess.Popen[str] | None = None
        self._orders: subprocess.Popen[str] | None = None
        self._spark: subprocess.Popen[str] | None = None
        self._set_up: subprocess.Popen[str] | None = None
        self._bootstrap = ""
        self._last_summary = ""

    def stop(self) -> None:
        self._stopping.set()

    def start_broker(self, options: list[str]) -> None:
        command = ["start", "--data", str(self._data), "--log-level", "warning", "--stop-at-eof", *options]
        self._broker = self._penstock(command, stdout=subprocess.PIPE)
        assert self._broker.stdout is not None
        for line in self._broker.stdout:
            if line.startswith("ready "):
                # The line of the broker, unchanged: scripts wait for it.
                print(line.rstrip(), flush=True)
                self._bootstrap = line.split()[1]
                break
        if not self._bootstrap:
            raise CommandError("The broker did not start. See its error above.")
        threading.Thread(target=_drain, args=(self._broker.stdout,), daemon=True).start()
        say("the broker is ready for any Kafka client")

    def start_orders(self) -> None:
        from confluent_kafka.admin import AdminClient

        topics = AdminClient({"bootstrap.servers": self._bootstrap}).list_topics(timeout=15).topics
        if "orders" not in topics:
            # Checkpoints of an earlier data folder would refer to topics that do not exist.
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        script = str(self._pipeline / "generate.py")
        command = [sys.executable, script, "--bootstrap", self._bootstrap, "--rate", str(self._rate), "--stop-at-eof"]
        self._orders = self._process(command, self._log("generate.log"))
        say(f"producing about {self._rate:g} sample orders per second to the topic 'orders'")
        say(f"try: {_program()} consume orders --follow --bootstrap {self._bootstrap}")

    def start_spark(self, set_up: str | None) -> None:
        if not self._install(set_up):
            return
        say("starting Spark; the first results take about half a minute")
        command = [
            "pipeline",
            "run",
            str(self._pipeline),
            "--continuous",
            "--bootstrap",
            self._bootstrap,
            "--stop-at-eof",
        ]
        self._spark = self._penstock([*command, "--storage", str(self._folder)], self._log("pipeline.log"))

    def _install(self, set_up: str | None) -> bool:
        """Install Spark if it is missing; return whether it is installed."""
        if all(find_spec(name) is not None for name in NEEDED):
            return True
        if set_up is None:
            say("Spark is not installed, so the pipeline is not started. Run: pip install 'penstock[spark]'")
            return False
        say("installing Spark (pyspark is a download of 491 MB); the broker is available meanwhile")
        self._set_up = self._process(shlex.split(set_up), self._log("set-up.log"))
        began = time.monotonic()
        while self._set_up.poll() is None and not self._stopping.wait(1):
            if int(time.monotonic() - began) % 20 == 0:
                say(f"... still installing Spark ({time.monotonic() - began:.0f} s)")
        if self._stopping.is_set():
            return False
        if self._set_up.returncode != 0:
            say(f"Spark was not installed; see {self._folder / 'set-up.log'}. The broker keeps running.")
            return False
        say(f"Spark is installed ({time.monotonic() - began:.0f} s)")
        return True

    def watch(self) -> None:
        """Print results until Ctrl-C or until the broker exits."""
        consumer = self._consumer()
        summary_at = time.monotonic()
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    self._show_result(message)
                if self._broker is not None and self._broker.poll() is not None:
                    raise CommandError(f"The broker exited with code {self._broker.returncode}.")
                self._check_spark()
                if time.monotonic() - summary_at >= SUMMARY_EVERY_S:
                    summary_at = time.monotonic()
                    self._show_summary()
        finally:
            consumer.close()

    def _consumer(self) -> "Consumer":
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "demo",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "allow.auto.create.topics": False,
                "log_level": 0,
            }
        )
        consumer.subscribe(["sales"])
        return consumer

    def _show_result(self, message: "Message") -> None:
        value: dict[str, Any] = json.loads(message.value() or b"{}")
        begin, end = (datetime.fromisoformat(value[name]).strftime("%H:%M:%S") for name in ("from", "to"))
        print(
            f"  {begin} to {end}  {value['country']:<8}{value['orders']:>5} orders  {value['amount']:>12,.2f}",
            flush=True,
        )

    def _show_summary(self) -> None:
        state = self._state()
        if state is None or state["state"] != "running":
            return
        flows = {one["name"]: one for one in state["flows"]}
        read = max((one["rows"] for one in flows.values()), default=0)
        letters = sum(one["counted"].get("dead_letters", 0) for one in flows.values())
        lag = max((one["lag"] or 0 for one in flows.values()), default=0)
        text = f"pipeline: {read:,} orders read, {letters:,} dead letters, {lag:,} waiting"
        if not self._last_summary:
            text += f"\ncommands to try (add --bootstrap {self._bootstrap} to those of group and dlq):"
            for command in (
                f"pipeline status {self._pipeline} --storage {self._folder}",
                f"pipeline lag {self._pipeline} --storage {self._folder}",
                "group lag spark-orders --watch",
                "dlq show orders",
            ):
                text += f"\n    {_program()} {command}"
            text += f"\n    the Delta table {self._folder / 'lake' / 'orders'}, and docs/spark.md"
        if text != self._last_summary:
            self._last_summary = text
            say(text)

    def _state(self) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self._folder / "state.json").read_text()))
        except (OSError, ValueError):
            return None

    def _check_spark(self) -> None:
        if self._spark is not None and self._spark.poll() is not None:
            lines = (self._folder / "pipeline.log").read_text(errors="replace").strip().splitlines()
            say(f"the pipeline exited: {lines[-1] if lines else 'its log is empty'}. The broker keeps running.")
            self._spark = None

    def end(self) -> None:
        """Stop the producer and the pipeline, then the broker."""
        if self._bootstrap:
            print(flush=True)
            say("stopping the pipeline, then the broker")
        for process in (self._set_up, self._orders, self._spark, self._broker):
            _end(process)
        if self._bootstrap:
            say("stopped; start the demo again to continue with the same data")

    def _penstock(self, command: list[str], stdout: "int | IO[str] | None" = None) -> subprocess.Popen[str]:
        return self._process([sys.executable, "-m", "penstock.cli.main", *command], stdout)

    def _process(self, command: list[str], stdout: "int | IO[str] | None") -> subprocess.Popen[str]:
        # In its own session, so that Ctrl-C reaches only this process, which then stops the others.
        stderr = subprocess.STDOUT if stdout is not None and stdout != subprocess.PIPE else None
        # The pipe to its standard input closes when this process ends, however that happens.
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, text=True, start_new_session=True
        )

    def _log(self, name: str) -> IO[str]:
        return (self._folder / name).open("a")


def _end(process: subprocess.Popen[str] | None) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _orders_pipeline() -> Path:
    """Return the folder of the example pipeline that is installed with the client."""
    spec = find_spec("penstock_spark")
    assert spec is not None and spec.origin is not None, "penstock depends on penstock-client"
    return Path(spec.origin).parent / "examples" / "orders"


def _drain(stream: IO[str]) -> None:
    for line in stream:
        print(line.rstrip(), flush=True)


def _program() -> str:
    """Return the name under which this program was called, so that printed commands can be pasted."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "penstock" else "penstock"


def say(text: str) -> None:
    print(f"[demo] {text}", flush=True)
