"""Values as data frames (`coalloc[pandas]`).

| value | a row for each |
|---|---|
| Plan, Reservation, and several of them | segment: what is taken, where, from when to when |
| PlanResponse | plan |
| AvailabilityTable | start that was tried |
| DescribeFederationResponse | site and path |
| SearchServersResponse | idle server |
| TaskPlan, TaskReceipt | leg of the data's way, and the run |
| WorkflowPlan, WorkflowReceipt | activity and transfer |
| everything else | value, with a column for each of its fields |

Instants are in UTC. Columns have the names of the schema, with their units.

Left out: what `coalloc sim run` writes (`coalloc.experiments`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from coalloc._shortage import shortage_of
from coalloc._tables import AvailabilityTable
from coalloc._value import OpenEnum, Value
from coalloc.messages import (
    DescribeFederationResponse,
    Plan,
    PlanResponse,
    Reservation,
    SearchServersResponse,
    Segment,
    TaskPlan,
    TaskReceipt,
    WorkflowPlan,
    WorkflowReceipt,
)

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]


def to_frame(value: object) -> pandas.DataFrame:
    """A value, or an iterable of values, as a data frame.

    Raises:
        ImportError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas: pip install 'coalloc[pandas]'") from error
    frame: pandas.DataFrame = pandas.DataFrame(rows_of(value))
    return frame


def rows_of(value: object) -> list[Row]:
    """The rows of a value, without pandas."""
    match value:
        case None:
            return []
        case Plan():
            return _segments(value.segments)
        case Reservation():
            return _reservation(value)
        case PlanResponse():
            return [_plan(place, one) for place, one in enumerate(value.plans)]
        case AvailabilityTable():
            return _table(value)
        case DescribeFederationResponse():
            return _federation(value)
        case SearchServersResponse():
            return [_flat(one) for one in value.servers]
        case TaskReceipt() | WorkflowReceipt():
            return rows_of(value.plan)
        case TaskPlan():
            return _task(value)
        case WorkflowPlan():
            return _workflow(value)
        case Value():
            return [_flat(value)]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [row for one in value for row in rows_of(one)]
    raise TypeError(f"{type(value).__name__} has no rows; allowed: values of coalloc")


def _flat(value: Value) -> Row:
    """Every field of a value; a window as its start and end."""
    row: Row = {}
    for field in dataclasses.fields(cast(Any, value)):
        part = getattr(value, field.name)
        row[field.name] = part.name if isinstance(part, OpenEnum) else part
    return row


def _segments(segments: Sequence[Segment]) -> list[Row]:
    return [
        {
            "resource": one.resource,
            "resource_manager": one.resource_manager,
            "amount": one.amount,
            "start": one.window.start,
            "end": one.window.end,
        }
        for one in segments
    ]


def _reservation(value: Reservation) -> list[Row]:
    head: Row = {
        "id": value.id,
        "request_id": value.request_id,
        "user": value.user,
        "state": value.state.name,
    }
    segments = _segments(value.plan.segments) if value.plan else []
    return [head | segment for segment in segments] or [head]


def _plan(place: int, plan: Plan) -> Row:
    values = {one.objective.name.lower(): one.value for one in plan.values}
    return {
        "plan": place,
        "start": plan.window.start,
        "end": plan.window.end,
        "sites": ", ".join(one.at for one in plan.placements),
        "cost_millipoints": plan.cost_millipoints,
        "proven_optimal": plan.proven_optimal,
        "digest": plan.digest,
    } | values


def _table(table: AvailabilityTable) -> list[Row]:
    rows = []
    for row in table.rows:
        plan, short = row.plan, shortage_of(row.refusal) if row.refusal else None
        rows.append(
            {
                "start": row.window.start,
                "end": row.window.end,
                "fits": row.fits,
                "sites": ", ".join(row.sites),
                "cost_millipoints": plan.cost_millipoints if plan else None,
                "short_by": short.amount if short else None,
                "short_of": short.resource if short else "",
                "unit": short.unit if short else "",
                "why": row.refusal.detail if row.refusal else "",
            }
        )
    return rows


def _federation(value: DescribeFederationResponse) -> list[Row]:
    rows: list[Row] = []
    for manager in value.resource_managers:
        head: Row = {
            "resource_manager": manager.name,
            "reachable": manager.reachable,
            "described": manager.described,
        }
        said = manager.description
        if said is None:
            rows.append(head)
            continue
        rows += [head | {"kind": "site", "name": one.name, "cpus": one.cpus} for one in said.sites]
        rows += [
            head
            | {
                "kind": "path",
                "name": one.name,
                "ends": f"{one.a} {one.b}",
                "capacity_bps": one.capacity_bps,
            }
            for one in said.paths
        ]
    return rows


def _task(plan: TaskPlan) -> list[Row]:
    legs: list[Row] = [
        {
            "what": "send",
            "where": leg.path,
            "from": leg.from_,
            "to": leg.to,
            "start": leg.window.start,
            "end": leg.window.end,
        }
        for leg in (*plan.legs, *plan.output_legs)
    ]
    run: Row = {
        "what": "run",
        "where": plan.cluster,
        "cpus": plan.cpus,
        "start": plan.run.start,
        "end": plan.run.end,
    }
    return [*legs, run]


def _workflow(plan: WorkflowPlan) -> list[Row]:
    runs: list[Row] = [
        {
            "what": "run",
            "name": one.name,
            "site": one.site,
            "cpus": one.cpus,
            "start": one.window.start,
            "end": one.window.end,
        }
        for one in plan.activities
    ]
    travels: list[Row] = [
        {
            "what": "send",
            "name": one.data,
            "from": one.from_,
            "to": one.to,
            "rate_bps": one.rate_bps,
            "start": one.window.start,
            "end": one.window.end,
        }
        for one in plan.transfers
    ]
    return runs + travels
