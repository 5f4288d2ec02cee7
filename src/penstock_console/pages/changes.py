"""The endpoints of changes: plan, execute, and the jobs of long ones."""

from typing import Any

from penstock_console import audit
from penstock_console.changes.table import CHANGES
from penstock_console.endpoints import Call, Endpoint
from penstock_console.errors import not_found
from penstock_console.jobs import Job
from penstock_console.parameters import Arguments
from penstock_console.plans import Change


def _change(call: Call) -> Change:
    found = CHANGES.get(call["action"])
    if found is None:
        raise not_found(
            f"There is no change '{call['action']}'.", hint=f"The changes are {', '.join(sorted(CHANGES))}."
        )
    return found


def plan(call: Call) -> dict[str, Any]:
    return call.console.plans.make(_change(call), call.access, call.body)


def execute(call: Call) -> dict[str, Any]:
    change = _change(call)
    digest = Arguments(call.body, ("digest",)).text("digest")
    shown, ready = call.console.plans.take(change, call.access, digest)
    job = Job(change.action, owner=call.access)

    def log(outcome: str) -> None:
        audit.record(
            user=call.user,
            address=call.address,
            cluster=call.access.name,
            action=change.action,
            arguments=shown.given,
            hidden=change.secrets,
            plan=ready,
            outcome=outcome,
        )

    def work(job: Job) -> Any:
        try:
            outcome = ready.execute(job)
        except Exception as error:
            log(f"failed: {error}")
            raise
        finally:
            call.access.changed()
        log(outcome.message)
        return outcome

    if change.is_long:
        call.console.jobs.start(job, lambda job: str(work(job).message))
        return {"message": "Started.", "result": {}, "job": job.key}
    outcome = work(job)
    return {"message": outcome.message, "result": outcome.result, "job": None}


def _job(call: Call) -> Job:
    job = call.console.jobs.find(call["job"], call.access)
    if job is None:
        raise not_found("There is no such job.")
    return job


def show_job(call: Call) -> dict[str, Any]:
    return _job(call).describe()


def stop_job(call: Call) -> dict[str, Any]:
    job = _job(call)
    job.stop_requested.set()
    return job.describe()


ENDPOINTS = (
    Endpoint(path="changes/jobs/{job}/stop", doc="Stop a job.", read=stop_job, method="POST"),
    Endpoint(path="changes/{action}/plan", doc="Plan a change.", read=plan, method="POST"),
    Endpoint(path="changes/{action}/execute", doc="Execute a plan.", read=execute, method="POST"),
    Endpoint(path="jobs/{job}", doc="The progress of a job.", read=show_job),
)
