"""penstock demo: a broker, orders flowing into it, a Spark pipeline over them, and its results on the screen.

The broker is usable from its ready line on; Spark, which takes longer to fetch and to start, joins it. Each part is a
process of its own, so that what fails says so while the others go on. Ctrl-C stops them in order, the broker last.
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
    data: Annotated[Path, typer.Option("--data", "-d", metavar="DIR", help="Where records live.")] = Path("./data"),
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Where to listen; 0: a free port.")
    ] = 9092,
    pipeline: Annotated[
        Path | None,
        typer.Option(
            "--pipeline", metavar="DIR", help="Pipeline to run; the folder contains a generate.py. [default: orders]"
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", min=0.1, help="Orders a second.")] = 20.0,
    set_up: Annotated[
        str | None, typer.Option("--set-up", metavar="COMMAND", help="What installs Spark, if it is missing.")
    ] = None,
) -> None:
    """Show it all at work on this machine. More options go to the broker, as for penstock start."""
    pipeline = pipeline or _orders_pipeline()
    if not (pipeline / "generate.py").is_file():
        raise CommandError(f"{pipeline} contains no generate.py: pass the folder of a demo pipeline with --pipeline.")
    show = Demo(data, pipeline, rate)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: show.stop())
    try:
        show.start_broker(["--port", str(port), *context.args])
        show.start_orders()
        show.start_spark(set_up)
        show.watch()
    finally:
        show.end()


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
        self._said = ""

    def stop(self) -> None:
        self._stopping.set()

    def start_broker(self, options: list[str]) -> None:
        command = ["start", "--data", str(self._data), "--log-level", "warning", *options]
        self._broker = self._penstock(command, stdout=subprocess.PIPE)
        assert self._broker.stdout is not None
        for line in self._broker.stdout:
            if line.startswith("ready "):
                # Exactly the broker's own line: scripts wait for it.
                print(line.rstrip(), flush=True)
                self._bootstrap = line.split()[1]
                break
        if not self._bootstrap:
            raise CommandError("the broker did not start; its reason stands above")
        threading.Thread(target=_drain, args=(self._broker.stdout,), daemon=True).start()
        say("the broker is up: any Kafka client can use it now")

    def start_orders(self) -> None:
        from confluent_kafka.admin import AdminClient

        topics = AdminClient({"bootstrap.servers": self._bootstrap}).list_topics(timeout=15).topics
        if "orders" not in topics:
            # Checkpoints of another life of the broker would point into topics that are gone.
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        script = str(self._pipeline / "generate.py")
        command = [sys.executable, script, "--bootstrap", self._bootstrap, "--rate", str(self._rate)]
        self._orders = self._process(command, self._log("generate.log"))
        say(f"sample orders flow into the topic 'orders', about {self._rate:g} a second")
        say(f"look:  {_me()} consume orders --follow --bootstrap {self._bootstrap}")

    def start_spark(self, set_up: str | None) -> None:
        if not self._install(set_up):
            return
        say("Spark is starting; its first results take half a minute or so")
        command = ["pipeline", "run", str(self._pipeline), "--continuous", "--bootstrap", self._bootstrap]
        self._spark = self._penstock([*command, "--storage", str(self._folder)], self._log("pipeline.log"))

    def _install(self, set_up: str | None) -> bool:
        """Fetch Spark if it is missing. True if it is there."""
        if all(find_spec(name) is not None for name in NEEDED):
            return True
        if set_up is None:
            say("Spark is not installed, so the pipeline does not run: pip install 'penstock[spark]'")
            return False
        say("Spark is being fetched, once: pyspark alone is a download of 491 MB. The broker serves meanwhile.")
        self._set_up = self._process(shlex.split(set_up), self._log("set-up.log"))
        began = time.monotonic()
        while self._set_up.poll() is None and not self._stopping.wait(1):
            if int(time.monotonic() - began) % 20 == 0:
                say(f"... still fetching Spark ({time.monotonic() - began:.0f} s)")
        if self._stopping.is_set():
            return False
        if self._set_up.returncode != 0:
            say(f"Spark could not be set up; the reason is in {self._folder / 'set-up.log'}. The broker goes on.")
            return False
        say(f"Spark is set up ({time.monotonic() - began:.0f} s)")
        return True

    def watch(self) -> None:
        """Print results as they come, until somebody says stop or the broker ends."""
        consumer = self._consumer()
        summary_at = time.monotonic()
        try:
            while not self._stopping.is_set():
                message = consumer.poll(0.5)
                if message is not None and message.error() is None:
                    self._show_result(message)
                if self._broker is not None and self._broker.poll() is not None:
                    raise CommandError(f"the broker ended with code {self._broker.returncode}")
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
        if not self._said:
            text += f"\nwhere to look next, with --bootstrap {self._bootstrap} where a broker is asked:"
            for command in (
                f"pipeline status {self._pipeline} --storage {self._folder}",
                f"pipeline lag {self._pipeline} --storage {self._folder}",
                "group lag spark-orders --watch",
                "dlq show orders",
            ):
                text += f"\n    {_me()} {command}"
            text += f"\n    the Delta table {self._folder / 'lake' / 'orders'}, and docs/spark.md"
        if text != self._said:
            self._said = text
            say(text)

    def _state(self) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self._folder / "state.json").read_text()))
        except (OSError, ValueError):
            return None

    def _check_spark(self) -> None:
        if self._spark is not None and self._spark.poll() is not None:
            lines = (self._folder / "pipeline.log").read_text(errors="replace").strip().splitlines()
            say(f"the pipeline ended: {lines[-1] if lines else 'it said nothing'}. The broker goes on; Ctrl-C ends it.")
            self._spark = None

    def end(self) -> None:
        """Those who write and read first, the broker last."""
        if self._bootstrap:
            print(flush=True)
            say("stopping: the pipeline finishes its batch, then the broker closes its files")
        for process in (self._set_up, self._orders, self._spark, self._broker):
            _end(process)
        if self._bootstrap:
            say("stopped; start the demo again to continue with the same data")

    def _penstock(self, command: list[str], stdout: "int | IO[str] | None" = None) -> subprocess.Popen[str]:
        return self._process([sys.executable, "-m", "penstock.cli.main", *command], stdout)

    def _process(self, command: list[str], stdout: "int | IO[str] | None") -> subprocess.Popen[str]:
        # Ctrl-C reaches only this process, which then stops the others in order.
        stderr = subprocess.STDOUT if stdout is not None and stdout != subprocess.PIPE else None
        return subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True, start_new_session=True)

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


def _me() -> str:
    """How this command was called, so that what is shown can be copied."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "penstock" else "penstock"


def say(text: str) -> None:
    print(f"[demo] {text}", flush=True)
