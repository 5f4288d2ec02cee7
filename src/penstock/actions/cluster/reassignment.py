"""Moving replicas: what is asked for becomes a plan, the plan a reassignment, and its progress a line."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from penstock.actions.cluster import requests as changes
from penstock.actions.cluster_client import Cluster, ClusterError
from penstock.actions.cluster.replica_plan import Move, TooFewNodes, drain, spread
from penstock.actions.connection import open_cluster
from penstock.cli.errors import CommandError

LOOK_S = 0.5


def for_topic(bootstrap: str, topic: str, number: int, targets: tuple[int, ...]) -> list[Move]:
    with open_cluster(bootstrap) as cluster:
        found = [each for each in changes.partitions(cluster) if each.topic == topic]
    if not found:
        raise CommandError(f"There is no topic {topic}: 'penstock topic list' shows the topics there are.")
    chosen = [each for each in found if number in (-1, each.number)]
    if not chosen:
        raise CommandError(f"{topic} has no partition {number}: it has 0 to {len(found) - 1}.")
    return [Move(topic, each.number, each.replicas, targets) for each in chosen if each.replicas != targets]


def off_node(bootstrap: str, node: int) -> list[Move]:
    with open_cluster(bootstrap) as cluster:
        known = {each.node_id: each for each in changes.brokers(cluster)}
        partitions = changes.partitions(cluster)
    if node not in known:
        raise CommandError(f"There is no node {node}: 'penstock cluster nodes' shows the nodes there are.")
    racks = {each.node_id: each.rack for each in known.values() if not each.is_fenced}
    try:
        return drain(partitions, node, racks)
    except TooFewNodes as problem:
        raise CommandError(str(problem)) from None


def spread_evenly(bootstrap: str) -> list[Move]:
    with open_cluster(bootstrap) as cluster:
        racks = {each.node_id: each.rack for each in changes.brokers(cluster) if not each.is_fenced}
        return spread(changes.partitions(cluster), racks)


def elect_preferred(bootstrap: str) -> int:
    with open_cluster(bootstrap) as cluster:
        return len(changes.elect_preferred(cluster))


def forget(bootstrap: str, node: int) -> None:
    with open_cluster(bootstrap) as cluster:
        known = {each.node_id: each for each in changes.brokers(cluster)}
        if node not in known:
            raise CommandError(f"There is no node {node}: 'penstock cluster nodes' shows the nodes there are.")
        held = sum(node in each.replicas for each in changes.partitions(cluster))
        if held:
            raise CommandError(
                f"{held} partitions have a replica on node {node}: 'penstock cluster drain {node}' first."
            )
        if not known[node].is_fenced:
            raise CommandError(f"Node {node} is still up: stop it first.")
        changes.unregister(cluster, node)


def carry_out(bootstrap: str, moves: Sequence[Move], *, wait: bool) -> None:
    if not moves:
        print("nothing has to move")
        return
    with open_cluster(bootstrap) as cluster:
        changes.reassign(cluster, moves)
    print(f"moving {len(moves)} partitions", file=sys.stderr)
    if wait:
        _watch(bootstrap, moves)


def _watch(bootstrap: str, moves: Sequence[Move]) -> None:
    """Until every partition of the plan has moved. Ctrl-C ends the watching, not the moving."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    places = {(move.topic, move.number) for move in moves}
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("moving", total=None)
        while True:
            try:
                with open_cluster(bootstrap) as cluster:
                    left = places & set(changes.under_way(cluster))
                    done, total = _bytes(cluster, moves)
            except ClusterError:
                # A node may be changing hands at this very moment.
                time.sleep(LOOK_S)
                continue
            words = f"{len(places) - len(left)} of {len(places)} partitions"
            progress.update(task, description=words, completed=done, total=total or None)
            if not left:
                break
            time.sleep(LOOK_S)
    print(f"{len(moves)} partitions have moved")


def _bytes(cluster: Cluster, moves: Sequence[Move]) -> tuple[int, int]:
    """How much the new replicas hold of what they will."""
    held: dict[tuple[Any, ...], int] = changes.sizes(cluster, cluster.brokers)
    done = total = 0
    for move in moves:
        whole = max((held.get((move.topic, move.number, node), 0) for node in move.before), default=0)
        for node in move.added:
            total += whole
            done += min(whole, held.get((move.topic, move.number, node), 0))
    return done, total
