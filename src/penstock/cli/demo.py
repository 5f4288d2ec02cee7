"""penstock demo: run a broker, a producer of sample orders and a Spark pipeline, and print its results.

Each part is a separate process, so that one can fail without the others. The broker accepts clients from its ready
line on, while Spark is installed and started. Ctrl-C stops the processes in order, the broker last.
"""

import contextlib
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.console_child import ConsoleChild, choose_console_port, is_console_installed
from penstock.cli.demo_display import DemoDisplay
from penstock.cli.errors import CommandError
from penstock.cli.lifetime import on_stop_signal
from penstock.cli.ports import choose_port

if TYPE_CHECKING:
    from confluent_kafka import Consumer

EXAMPLE = "Example: penstock demo --data ./data --port 9092"
CONTEXT_SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True}
NEEDED = ("pyspark", "pyarrow", "deltalake", "yaml")
BROKER_STOP_S = 60.0
SPARK_STOP_S = 2.5
"""A batch that is cut off is repeated by the next run, and its results are written once: there is no need to wait."""
METRICS_PORT = 9404
POLL_S = 0.25


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
    on_stop_signal(running.stop)
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
        self._display = DemoDisplay()
        self._stopping = threading.Event()
        self._broker: subprocess.Popen[str] | None = None
        self._orders: subprocess.Popen[str] | None = None
        self._spark: subprocess.Popen[str] | None = None
        self._set_up: subprocess.Popen[str] | None = None
        self._console = ConsoleChild()
        self._bootstrap = ""
        self._metrics_url = ""
        self._is_resumed = False
        self._has_results = False

    def stop(self) -> None:
        self._stopping.set()

    def start_broker(self, options: list[str]) -> None:
        command = ["start", "--data", str(self._data), "--log-level", "warning", "--stop-at-eof", *options]
        if not any("--metrics" in word or "metrics.listener" in word for word in options):
            port = choose_port(METRICS_PORT, owner="the metrics", option="--metrics")
            self._metrics_url = f"http://127.0.0.1:{port}/metrics"
            command += ["--metrics", str(port)]
        # A busy machine may take seconds to start even this: the first line comes before everything else.
        self._display.status("starting the broker")
        self._broker = self._penstock(command, stdout=subprocess.PIPE)
        assert self._broker.stdout is not None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(self._broker.stdout, lines), daemon=True).start()
        while not self._stopping.is_set() and not self._bootstrap:
            try:
                line = lines.get(timeout=POLL_S)
            except queue.Empty:
                if self._display.is_quiet:
                    self._display.status("starting the broker")
                continue
            if line is None:
                raise CommandError("The broker did not start. See its error above.")
            # The line of the broker, unchanged: scripts wait for it.
            self._display.line(line)
            if line.startswith("ready "):
                self._bootstrap = line.split()[1]
        if self._bootstrap:
            self._display.say("the broker is ready for any Kafka client")

    def start_orders(self) -> None:
        from confluent_kafka.admin import AdminClient

        if self._stopping.is_set():
            return
        topics = AdminClient({"bootstrap.servers": self._bootstrap}).list_topics(timeout=15).topics
        if "orders" not in topics:
            # Checkpoints of an earlier data folder would refer to topics that do not exist.
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._is_resumed = self._state() is not None
        (self._folder / "state.json").unlink(missing_ok=True)
        script = str(self._pipeline / "generate.py")
        command = [sys.executable, script, "--bootstrap", self._bootstrap, "--rate", str(self._rate), "--stop-at-eof"]
        with self._log("generate.log") as log:
            self._orders = self._process(command, log)
        say = self._display.say
        self._start_console()
        say(f"producing about {self._rate:g} sample orders per second to the topic 'orders'")
        say("try these in another terminal:")
        at = f"--bootstrap {self._bootstrap}"
        for command_line in (
            f"consume orders --follow {at}",
            f"sql \"SELECT value->>'$.customer_id' AS customer, count(*) FROM topic('orders') GROUP BY 1\" {at}",
            f"topic describe orders {at}",
        ):
            self._display.line(f"    {_program()} {command_line}")
        if self._metrics_url:
            self._display.line(f"    curl {self._metrics_url}")

    def _start_console(self) -> None:
        """Start the web console, if it is installed."""
        if not is_console_installed():
            return
        port = choose_console_port()
        pipeline = f"{self._pipeline}={self._folder.absolute().as_uri()}"
        with self._log("console.log") as log:
            self._console.start(self._bootstrap, port, options=("--pipeline", pipeline), output=log)
        self._display.say(f"the console is on http://127.0.0.1:{port}/")

    def start_spark(self, set_up: str | None) -> None:
        if self._stopping.is_set() or not self._install(set_up):
            return
        how = "it continues where the last run stopped" if self._is_resumed else "it reads the topic from its beginning"
        self._display.say(f"starting Spark; {how}. The first results take half a minute, on a busy machine minutes")
        command = ["pipeline", "run", str(self._pipeline), "--continuous", "--bootstrap", self._bootstrap]
        command += ["--stop-at-eof", "--storage", str(self._folder)]
        with self._log("pipeline.log") as log:
            self._spark = self._penstock(command, log)

    def _install(self, set_up: str | None) -> bool:
        """Install Spark if it is missing; return whether it is installed."""
        if all(find_spec(name) is not None for name in NEEDED):
            return True
        say = self._display.say
        if set_up is None:
            say("Spark is not installed, so the pipeline is not started. Run: pip install 'penstock[spark]'")
            return False
        say("installing Spark once: a download of 491 MB takes one to three minutes. The broker is available meanwhile")
        with self._log("set-up.log") as log:
            self._set_up = self._process(shlex.split(set_up), log)
        began = time.monotonic()
        while self._set_up.poll() is None and not self._stopping.wait(POLL_S):
            if self._display.is_quiet:
                step = _last_line(self._folder / "set-up.log")
                self._display.status(f"installing Spark for {time.monotonic() - began:.0f} s: {step[:70]}")
        if self._stopping.is_set():
            return False
        if self._set_up.returncode != 0:
            say(f"Spark was not installed; see {self._folder / 'set-up.log'}. The broker keeps running.")
            return False
        say(f"Spark is installed ({time.monotonic() - began:.0f} s)")
        return True

    def watch(self) -> None:
        """Print results and the state until Ctrl-C or until the broker exits."""
        if self._stopping.is_set():
            return
        consumer = self._consumer()
        results: list[dict[str, Any]] = []
        try:
            while not self._stopping.is_set():
                message = consumer.poll(POLL_S)
                if message is not None:
                    if message.error() is None:
                        results.append(json.loads(message.value() or b"{}"))
                    # A batch of results is complete when no more of them arrive.
                    continue
                if results:
                    self._display.results(results)
                    results = []
                    self._first_results()
                if self._broker is not None and self._broker.poll() is not None:
                    raise CommandError(f"The broker exited with code {self._broker.returncode}.")
                self._check_spark()
                if self._display.is_quiet:
                    self._display.status(self._describe_state(consumer))
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

    def _first_results(self) -> None:
        if self._has_results or self._spark is None or not self._is_running():
            return
        self._has_results = True
        storage, at = f"--storage {self._folder}", f"--bootstrap {self._bootstrap}"
        self._display.say("the pipeline runs. More to try:")
        for command in (
            f"pipeline status {self._pipeline} {storage}",
            f"pipeline lag {self._pipeline} {storage} {at}",
            f"group lag spark-orders --watch {at}",
            f"dlq show orders {at}",
        ):
            self._display.line(f"    {_program()} {command}")
        self._display.line(f"    the Delta table {self._folder / 'lake' / 'orders'}, and docs/spark.md")

    def _describe_state(self, consumer: "Consumer") -> str:
        ends = _end_offsets(consumer, "orders")
        written = f"{sum(ends.values()):,} orders written"
        if self._spark is None:
            return written
        waiting = sum(max(0, end - self._processed().get(index, 0)) for index, end in ends.items())
        state = self._state()
        if not self._is_running() or state is None:
            return f"Spark is starting; {written}, {waiting:,} waiting for it"
        letters = sum(one["counted"].get("dead_letters", 0) for one in state["flows"])
        if not any(one["rows"] for one in state["flows"]):
            return f"Spark processes its first batch; {written}, {waiting:,} waiting"
        return f"Spark is running; {written}, {waiting:,} waiting, {letters:,} dead letters in this run"

    def _processed(self) -> dict[int, int]:
        """Return the offsets of 'orders' up to which the slowest flow has completed its batches."""
        from penstock_spark.pipelines.store import Store

        store = Store(self._folder.absolute().as_uri())
        slowest: dict[int, int] = {}
        for flow in store.flows():
            done = store.offsets(flow)
            for (topic, index), offset in (done[1] if done is not None else {}).items():
                if topic == "orders":
                    slowest[index] = min(offset, slowest.get(index, offset))
        return slowest

    def _is_running(self) -> bool:
        state = self._state()
        return state is not None and state["state"] == "running"

    def _state(self) -> dict[str, Any] | None:
        try:
            return dict(json.loads((self._folder / "state.json").read_text()))
        except (OSError, ValueError):
            return None

    def _check_spark(self) -> None:
        if self._spark is not None and self._spark.poll() is not None:
            last = _last_line(self._folder / "pipeline.log") or "its log is empty"
            self._display.say(f"the pipeline exited: {last}. The broker keeps running.")
            self._spark = None

    def end(self) -> None:
        """Stop the producer and the pipeline, then the broker."""
        if self._bootstrap:
            self._display.line("")
            self._display.say("stopping the pipeline, then the broker")
        running = [each for each in (self._set_up, self._orders, self._spark) if each and each.poll() is None]
        for process in running:
            process.terminate()
        self._console.stop()
        until = time.monotonic() + SPARK_STOP_S
        for process in running:
            _end(process, max(0.0, until - time.monotonic()))
        if self._broker is not None and self._broker.poll() is None:
            self._broker.terminate()
            _end(self._broker, BROKER_STOP_S)
        for each in (self._set_up, self._orders, self._spark, self._broker):
            if each is not None and each.stdin is not None:
                each.stdin.close()
        if self._bootstrap:
            self._display.say("stopped; start the demo again to continue with the same data")

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


def _end(process: subprocess.Popen[str], patience_s: float) -> None:
    """Wait for the end of a process that was told to stop; kill it if it takes too long, and what it leaves behind."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    # A pipeline that stops while Spark starts leaves a JVM that would end only after its start.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_offsets(consumer: "Consumer", topic: str) -> dict[int, int]:
    """Return the end offset of each partition; nothing while the topic is being created."""
    from confluent_kafka import KafkaException, TopicPartition

    try:
        partitions = consumer.list_topics(timeout=2).topics[topic].partitions
        return {
            index: consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=2)[1] for index in partitions
        }
    except (KafkaException, KeyError):
        return {}


def _orders_pipeline() -> Path:
    """Return the folder of the example pipeline that is installed with the client."""
    spec = find_spec("penstock_spark")
    assert spec is not None and spec.origin is not None, "penstock depends on penstock-client"
    return Path(spec.origin).parent / "examples" / "orders"


def _forward(stream: IO[str], lines: "queue.SimpleQueue[str | None]") -> None:
    with stream:
        for line in stream:
            lines.put(line.rstrip())
    lines.put(None)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _program() -> str:
    """Return the name under which this program was called, so that printed commands can be pasted."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "penstock" else "penstock"
