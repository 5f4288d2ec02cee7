"""Entry point of a pipeline run: spec, session, definitions, plan, runner. Used by the command and by tests."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock_client.errors import PenstockClientError, nearest
from penstock_spark.lake.files import file_system
from penstock_spark.pipelines import dead_letter_topics
from penstock_spark.pipelines.sources import Completion, Replay, completed
from penstock_spark.pipelines.spec import CLIENT, OWN, Spec
from penstock_spark.pipelines.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock_spark.pipelines.plan import Plan
    from penstock_spark.pipelines.progress import FlowProgress
    from penstock_spark.pipelines.runner import Report, Runner

REACH_S = 5.0
# A busy broker responds late.
RESPONSE_S_MAX = 15.0


@dataclass(frozen=True, slots=True)
class Wish:
    """The options of a run."""

    continuous: bool = False
    replay: Replay | None = None
    flows: Sequence[str] = ()


def reach(spec: Spec) -> None:
    """Fail within seconds, before Spark starts, if no broker accepts a connection or responds to a request."""
    with spec.cluster(deadline_s=REACH_S, request_timeout_s=RESPONSE_S_MAX) as cluster:
        cluster.refresh([])


def session(spec: Spec) -> SparkSession:
    """Create a session with the settings of the spec: local, on a cluster (spark.master), or remote (spark.remote)."""
    from pyspark.sql import SparkSession

    from penstock_spark.session import builder

    remote = spec.spark.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    settings = {name: value for name, value in spec.spark.items() if not name.startswith(OWN)}
    if remote:
        made = SparkSession.builder.remote(remote)
        # The server has its own static settings; only those of queries can be set from here.
        settings = {name: value for name, value in settings.items() if name.startswith("spark.sql.")}
    else:
        made = builder(spec.name)
        settings.setdefault("spark.master", os.environ.get("MASTER", "local[*]"))
    for name, value in settings.items():
        made = made.config(name, value)
    with _redirected_jvm_output(spark_log(spec)):
        spark = made.getOrCreate()
    if remote:
        _register(spark)
    else:
        spark.sparkContext.setLogLevel("ERROR")
    for name in ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return spark


def _register(spark: SparkSession) -> None:
    """Register the data sources: Spark Connect does not discover them. The server needs the packages as well."""
    from penstock_spark.lake.source import DefaultSource as Lake
    from penstock_spark.topics.source import DefaultSource as Topics

    for source in (Topics, Lake):
        spark.dataSource.register(source)


def spark_log(spec: Spec) -> str:
    """Return the file for Spark's log: the JVM and its workers write there."""
    system, folder = file_system(spec.storage)
    if system.type_name != "local":
        folder = tempfile.mkdtemp(prefix="penstock-pipeline-")
    os.makedirs(folder, exist_ok=True)
    return f"{folder}/spark.log"


@contextmanager
def _redirected_jvm_output(path: str) -> Iterator[None]:
    """Redirect the JVM's standard error, which it keeps from its start; ours stays free for the display."""
    sys.stderr.flush()
    kept = os.dup(2)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(target)


def run(spec: Spec, spark: SparkSession, wish: Wish, report: Report, started: Callable[[Runner], None]) -> (
    list[FlowProgress]
):  # fmt: skip
    """Plan and run; `started` receives the runner, so that the caller can stop it."""
    from penstock_spark.pipelines.graph import load
    from penstock_spark.pipelines.plan import Plan
    from penstock_spark.pipelines.runner import Runner

    store = Store(spec.storage)
    completion = Completion(
        spec.bootstrap, spec.is_jvm, wish.replay, lambda topics: _partitions(spec, topics), client=spec.client
    )
    for name, value in {**spec.spark, f"{OWN}bootstrap.servers": spec.bootstrap}.items():
        # Secrets stay out of the session's settings, which many users can see.
        if name.startswith(OWN) and not name.startswith(OWN + CLIENT):
            spark.conf.set(name, value)
    with completed(completion):
        graph = load(spec, spark)
    if wish.replay is not None:
        # Plan twice: which flows restart is known only when all are planned, and it changes their tables.
        _restart_flows(Plan(graph, spec, spark, store, completion), store, wish.flows)
    plan = Plan(graph, spec, spark, store, completion)
    for flow in plan.flows:
        store.make_folder(store.checkpoint(flow.name))
    _prepare_dead_letter_topics(spec, plan, completion)
    runner = Runner(spec, spark, plan, store, continuous=wish.continuous, report=report)
    started(runner)
    return runner.run()


def _restart_flows(plan: Plan, store: Store, names: Sequence[str]) -> None:
    known = [flow.name for flow in plan.flows]
    for name in names:
        if name not in known:
            raise PenstockClientError(
                f"the pipeline has no flow {name!r}.{nearest(name, known)} It has {', '.join(known)}"
            )
    for name in plan.downstream(set(names or known)):
        store.begin_generation(name, store.generation(name) + 1)


def _partitions(spec: Spec, subscription: str) -> dict[str, int]:
    names = [name.strip() for name in subscription.split(",")]
    with spec.cluster() as cluster:
        return {name: len(topic.leaders) for name, topic in cluster.refresh(names).items()}


def _prepare_dead_letter_topics(spec: Spec, plan: Plan, completion: Completion) -> None:
    """Create missing dead-letter topics, as the worker does, and make sure that their records fit."""
    wanted = {
        str(flow.output.options["topic"])
        for flow in plan.flows
        if str(flow.output.options.get("topic", "")).endswith(dead_letter_topics.SUFFIX)
    }
    if wanted:
        with spec.cluster() as cluster:
            dead_letter_topics.prepare(cluster, wanted, completion.seen)
