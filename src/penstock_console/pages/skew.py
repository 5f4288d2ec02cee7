"""Partitions and keys of a topic with more than their share of the records."""

from typing import Any, Final

from penstock.actions.positions import parse_duration_ms
from penstock.actions.skew.advice import advise, render_key
from penstock.actions.skew.measurement import measure_partitions, observe, sample_keys
from penstock_console.endpoints import Call, Endpoint
from penstock_console.parameters import Parameter

SAMPLE_MAX: Final = 200_000


def skew(call: Call) -> dict[str, Any]:
    access, topic = call.access, call["topic"]
    sample = call["sample"] if access.policy.contents else 0
    partitions = measure_partitions(access.connection, topic, parse_duration_ms(call["since"]))
    sampled = sample_keys(access.connection, topic, partitions, sample, advance=lambda size, done: None)
    observed, gini = observe(partitions, sampled, call["keys"])
    return {
        "topic": topic,
        "since": call["since"],
        "imbalance": observed.imbalance,
        "gini": gini,
        "sampled": observed.sampled,
        "keyless": observed.keyless,
        "distinct_keys": observed.distinct_keys,
        "partitions": [
            {
                "partition": each.index,
                "offsets": each.latest - each.earliest,
                "recent": each.recent,
                "bytes": each.size,
            }
            for each in partitions
        ],
        "keys": [
            {"key": render_key(heavy.key), "partition": heavy.partition, "share": heavy.share}
            for heavy in observed.heavy
        ],
        "advice": advise(observed),
    }


ENDPOINTS = (
    Endpoint(
        path="topics/{topic}/skew",
        doc="The busiest partitions and keys of a topic.",
        read=skew,
        parameters=(
            Parameter(name="since", default="1h", doc="Age up to which records are recent."),
            Parameter(name="sample", default=20_000, most=SAMPLE_MAX, doc="How many of the newest records to sample."),
            Parameter(name="keys", default=10, least=1, most=100, doc="How many keys to return."),
        ),
        is_slow=True,
    ),
)
