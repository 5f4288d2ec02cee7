"""Reduction of a failing seed's plan: removes faults and clients while it still fails."""

from __future__ import annotations

from copy import deepcopy

from penstock_sim.plan import Plan, draw
from penstock_sim.world import World


def shrink(seed: int, *, nodes: int | None = None) -> Plan:
    """Return a smaller plan that violates the same invariant."""
    plan = draw(seed, nodes=nodes)
    broken = _broken(plan)
    if not broken:
        return plan
    for name in list(plan.faults):
        smaller = deepcopy(plan)
        del smaller.faults[name]
        plan = smaller if _broken(smaller) & broken else plan
    for count in ("members", "transactors", "plain_producers", "idempotent_producers", "consumers"):
        smaller = deepcopy(plan)
        setattr(smaller, count, 0)
        plan = smaller if _broken(smaller) & broken else plan
    return plan


def _broken(plan: Plan) -> set[str]:
    return {violation.partition(":")[0] for violation in World(deepcopy(plan)).run().violations}
