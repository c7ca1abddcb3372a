"""Every call of a client as a program: values to messages, answers to values, and what is refused or indefinite.

Left out: how a call is made again (`coalloc._exchange`), and the transport.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from coalloc import errors, messages
from coalloc._exchange import Change, Patience, exchange
from coalloc._program import Call, Emit, Program
from coalloc._value import (
    V,
    Value,
    from_message,
    to_duration,
    to_message,
    to_timestamp,
    word_of,
)
from coalloc.messages import (
    AllocateRequest,
    ChangeState,
    CoAllocationRequest,
    PlanOptions,
    PlanResponse,
    Refusal,
    Reservation,
    ReservationState,
    TaskOptions,
    TaskReceipt,
    TaskRequest,
    Workflow,
    WorkflowOptions,
    WorkflowReceipt,
)
from coalloc.v1 import coordinator_pb2 as wire
from coalloc.v1 import tasks_pb2, workflows_pb2

A = TypeVar("A", bound=Message)
# The most entries of one page.
PAGE_MAX = 10_000


def call(method: str, message: Message, answer: type[Message], needs: tuple[str, ...] = ()) -> Call:
    """A call of the coordinator; of its service for workflows when the method is of that one."""
    service = "Workflows" if "Workflow" in method or method == "ReportActivity" else "Coordinator"
    return Call(f"/coalloc.v1.{service}/{method}", message, answer, needs)


def ask(
    method: str,
    message: Message,
    answer: type[A],
    patience: Patience,
    change: Change | None = None,
    needs: tuple[str, ...] = (),
) -> Program[A]:
    """Makes one call."""
    said = yield from exchange(call(method, message, answer, needs), patience, change)
    return cast(A, said)


def read(kind: type[V], method: str, message: Message, patience: Patience) -> Program[V]:
    """Makes one call that changes nothing, whose whole answer is a value."""
    answer = yield from ask(method, message, kind._message_type, patience)
    return from_message(kind, answer)


def message_of(value: Value | None) -> Any:
    """A value as a message; None stays.

    Raises:
        TypeError: it is no value of the schema.
    """
    if value is not None and not isinstance(value, Value):
        raise TypeError(f"{value!r} is not allowed; needed: a value of coalloc.messages")
    return None if value is None else to_message(value, value._message_type)


def set_or_not(**fields: object) -> dict[str, Any]:
    """Those fields of a message that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def stamp_or_not(**fields: datetime | None) -> dict[str, Any]:
    """Those instants that are not None, as a message has them."""
    return {name: to_timestamp(at, name) for name, at in fields.items() if at is not None}


def needs_of(request: CoAllocationRequest) -> tuple[str, ...]:
    """What a coordinator must know to carry out a request as it is meant, because an older one ignores a field."""
    manual = ("manual-provision",) if request.manual_provision else ()
    return manual + (("series",) if request.series else ())


def judge(
    reservation: Reservation,
    change: Change,
    request: CoAllocationRequest | None = None,
    fresh_plans: tuple[messages.Plan, ...] = (),
) -> Reservation:
    """What an answer about a whole reservation means.

    Raises:
        coalloc.errors.Refused: nothing is reserved.
        coalloc.errors.Indefinite: the coordinator has not finished.
    """
    if not reservation.definite:
        text = f"the reservation is {reservation.state.name}, and that is not final"
        raise errors.Indefinite(text, id=change.id, look=change.look, reservation=reservation)
    if reservation.state == ReservationState.FAILED:
        raise errors.Refused(
            reservation.refusal or Refusal(),
            request=request or reservation.request,
            alternatives=reservation.alternatives,
            fresh_plans=fresh_plans,
            reservation=reservation,
        )
    return reservation


def judge_change(
    reservation: Reservation, change: Change, request: CoAllocationRequest | None = None
) -> Reservation:
    """What an answer about a change means.

    Raises:
        coalloc.errors.Refused: the reservation stays as it was.
        coalloc.errors.Indefinite: the coordinator has not finished.
    """
    said = reservation.change
    if said is None or said.state == ChangeState.DONE:
        return reservation
    if said.state == ChangeState.REFUSED:
        raise errors.Refused(
            said.refusal or Refusal(),
            request=request,
            alternatives=reservation.alternatives,
            reservation=reservation,
        )
    text = f"the change is {said.state.name}, and that is not final"
    raise errors.Indefinite(text, id=change.id, look=change.look, reservation=reservation)


def plan(
    request: CoAllocationRequest, options: PlanOptions | None, patience: Patience
) -> Program[PlanResponse]:
    """Plans and holds nothing."""
    message = wire.PlanRequest(request=message_of(request), options=message_of(options))
    # Nothing is held, so whatever an older coordinator ignores makes no difference.
    answer = yield from ask("Plan", message, wire.PlanResponse, patience)
    return from_message(PlanResponse, answer)


def reserve(
    request: CoAllocationRequest,
    options: PlanOptions | None,
    request_id: str,
    plan_digest: str,
    patience: Patience,
) -> Program[Reservation]:
    """Plans and reserves."""
    message = wire.ReserveRequest(
        request_id=request_id,
        request=message_of(request),
        options=message_of(options),
        plan_digest=plan_digest,
    )
    change = Change(request_id, f"get({request_id!r}), or reserve the same with this request_id")
    answer = yield from ask(
        "Reserve", message, wire.ReserveResponse, patience, change, needs_of(request)
    )
    fresh = tuple(from_message(messages.Plan, one) for one in answer.fresh_plans)
    return judge(from_message(Reservation, answer.reservation), change, request, fresh)


def allocate(request: AllocateRequest, request_id: str, patience: Patience) -> Program[Reservation]:
    """Reserves whole servers."""
    message = to_message(request, wire.AllocateRequest)
    message.request_id = request_id
    change = Change(request_id, f"get({request_id!r}), or allocate the same with this request_id")
    answer = yield from ask("Allocate", message, wire.AllocateResponse, patience, change)
    return judge(from_message(Reservation, answer.reservation), change)


def modify(
    id: str,
    request: CoAllocationRequest,
    options: PlanOptions | None,
    change_id: str,
    may_move: bool,
    patience: Patience,
) -> Program[Reservation]:
    """Changes a reservation."""
    message = wire.ModifyRequest(
        id=id,
        change_id=change_id,
        request=message_of(request),
        options=message_of(options),
        may_move=may_move,
    )
    change = _change_of(id, change_id, "modify")
    answer = yield from ask(
        "Modify", message, wire.ModifyResponse, patience, change, needs_of(request)
    )
    return judge_change(from_message(Reservation, answer.reservation), change, request)


def _change_of(id: str, change_id: str, verb: str) -> Change:
    return Change(id, f"get({id!r}).change, or {verb} the same with change_id={change_id!r}")


def release(id: str, user: str, patience: Patience) -> Program[Reservation]:
    """Ends a reservation."""
    message = wire.ReleaseReservationRequest(id=id, user=user)
    change = Change(id, f"get({id!r}), or release it again")
    kind = wire.ReleaseReservationResponse
    answer = yield from ask("Release", message, kind, patience, change)
    reservation = from_message(Reservation, answer.reservation)
    # A request that failed has nothing to release, which is what was wanted.
    if not reservation.definite:
        return judge(reservation, change)
    return reservation


def release_rest(id: str, change_id: str, user: str, patience: Patience) -> Program[Reservation]:
    """Gives back what is left of a reservation that has begun."""
    message = wire.ReleaseRestRequest(id=id, change_id=change_id, user=user)
    change = _change_of(id, change_id, "release_rest")
    answer = yield from ask("ReleaseRest", message, wire.ReleaseRestResponse, patience, change)
    return judge_change(from_message(Reservation, answer.reservation), change)


def provision(
    id: str, is_let_in: bool, change_id: str, user: str, patience: Patience
) -> Program[Reservation]:
    """Lets the user in to the equipment, or takes it away."""
    if is_let_in:
        change = _change_of(id, change_id, "provision")
        asked = wire.ProvisionRequest(id=id, change_id=change_id, user=user)
        answer = yield from ask("Provision", asked, wire.ProvisionResponse, patience, change)
        return judge_change(from_message(Reservation, answer.reservation), change)
    change = _change_of(id, change_id, "deprovision")
    other = wire.DeprovisionRequest(id=id, change_id=change_id, user=user)
    taken = yield from ask("Deprovision", other, wire.DeprovisionResponse, patience, change)
    return judge_change(from_message(Reservation, taken.reservation), change)


def get(id: str, patience: Patience) -> Program[Reservation]:
    """Reads one reservation."""
    answer = yield from ask("Get", wire.GetRequest(id=id), wire.GetResponse, patience)
    return from_message(Reservation, answer.reservation)


def listing(
    user: str,
    states: Sequence[ReservationState],
    series: str,
    page_size: int | None,
    patience: Patience,
) -> Program[None]:
    """Emits reservations, page by page."""
    message = wire.ListRequest(
        user=user,
        states=[cast(Any, int(word_of(ReservationState, state))) for state in states],
        series=series,
        **set_or_not(page_size=page_size),
    )
    needs = ("series",) if series else ()
    while True:
        page = yield from ask("List", message, wire.ListResponse, patience, needs=needs)
        for one in page.reservations:
            yield Emit(from_message(Reservation, one))
        if not page.next_page_token:
            return
        message = wire.ListRequest.FromString(message.SerializeToString())
        message.page_token = page.next_page_token


def servers(
    window: messages.Window,
    at_least: int,
    properties: Sequence[str],
    site: str,
    limit: int | None,
    patience: Patience,
) -> Program[messages.SearchServersResponse]:
    """Searches idle servers."""
    message = wire.SearchServersRequest(
        window=message_of(window),
        at_least=at_least,
        properties=properties,
        site=site,
        **set_or_not(limit=limit),
    )
    return (yield from read(messages.SearchServersResponse, "SearchServers", message, patience))


def plan_task(
    task: TaskRequest, options: TaskOptions | None, patience: Patience
) -> Program[messages.TaskPlanResponse]:
    """Plans a task and holds nothing."""
    message = tasks_pb2.PlanTaskRequest(task=message_of(task), options=message_of(options))
    answer = yield from ask("PlanTask", message, tasks_pb2.PlanTaskResponse, patience)
    return from_message(messages.TaskPlanResponse, answer.answer)


def submit_task(
    task: TaskRequest,
    options: TaskOptions | None,
    reservation: messages.TaskReservation,
    tries: int | None,
    request_id: str,
    patience: Patience,
) -> Program[TaskReceipt]:
    """Plans and reserves a task."""
    message = tasks_pb2.SubmitTaskRequest(
        request_id=request_id,
        task=message_of(task),
        options=message_of(options),
        reservation=cast(Any, int(reservation)),
        **set_or_not(tries=tries),
    )
    look = f"get({request_id!r}), or submit the same task with this request_id"
    change = Change(request_id, look)
    answer = yield from ask("SubmitTask", message, tasks_pb2.SubmitTaskResponse, patience, change)
    receipt = from_message(TaskReceipt, answer.task)
    if not receipt.definite:
        raise errors.Indefinite("the task is not final", id=request_id, look=look)
    if not receipt.confirmed and receipt.refusal is not None:
        raise errors.Refused(receipt.refusal, receipt=receipt)
    return receipt


def picture(
    bandwidth_bps: int,
    cpus: int,
    slot_us: int,
    slots: int,
    first: datetime | None,
    patience: Patience,
) -> Program[messages.ReadPictureResponse]:
    """What a coordinator that plans tasks believes of its resource managers."""
    message = tasks_pb2.ReadPictureRequest(
        bandwidth_bps=bandwidth_bps, cpus=cpus, slot=to_duration(slot_us), slots=slots
    )
    if first is not None:
        getattr(message, "from").CopyFrom(to_timestamp(first, "first"))
    return (yield from read(messages.ReadPictureResponse, "ReadPicture", message, patience))


def whole_workflow(
    id: str, receipt: workflows_pb2.WorkflowReceipt | None, token: str, patience: Patience
) -> Program[WorkflowReceipt]:
    """A workflow with all pages of its plan: those after `token`, or all when there is no receipt yet."""
    while receipt is None or token:
        request = workflows_pb2.GetWorkflowRequest(id=id, page_size=PAGE_MAX, page_token=token)
        page = yield from ask("GetWorkflow", request, wire.GetWorkflowResponse, patience)
        token = page.next_page_token
        if receipt is None:
            receipt = page.workflow
            continue
        for part in ("activities", "transfers", "channels", "segments"):
            getattr(receipt.plan, part).extend(getattr(page.workflow.plan, part))
    return from_message(WorkflowReceipt, receipt)


def plan_workflow(
    workflow: Workflow, options: WorkflowOptions | None, patience: Patience
) -> Program[messages.PlanWorkflowResponse]:
    """Plans a workflow and holds nothing."""
    message = workflows_pb2.PlanWorkflowRequest(
        workflow=message_of(workflow), options=message_of(options)
    )
    return (yield from read(messages.PlanWorkflowResponse, "PlanWorkflow", message, patience))


def submit_workflow(
    workflow: Workflow, options: WorkflowOptions | None, request_id: str, patience: Patience
) -> Program[WorkflowReceipt]:
    """Plans and reserves a workflow."""
    message = workflows_pb2.SubmitWorkflowRequest(
        request_id=request_id, workflow=message_of(workflow), options=message_of(options)
    )
    look = f"workflow({request_id!r}), or submit the same workflow with this request_id"
    kind = workflows_pb2.SubmitWorkflowResponse
    change = Change(request_id, look)
    answer = yield from ask("SubmitWorkflow", message, kind, patience, change)
    receipt = yield from whole_workflow(
        request_id, answer.workflow, answer.next_page_token, patience
    )
    if not receipt.definite:
        raise errors.Indefinite("the workflow is not final", id=request_id, look=look)
    if not receipt.confirmed and receipt.refusal is not None:
        raise errors.Refused(receipt.refusal.refusal or Refusal(), receipt=receipt)
    return receipt


def report_activity(
    message: workflows_pb2.ReportActivityRequest, patience: Patience
) -> Program[messages.ReportActivityResponse]:
    """Reports what happened to an activity."""
    look = f"workflow({message.id!r}), or report the same with report_id={message.report_id!r}"
    kind = workflows_pb2.ReportActivityResponse
    change = Change(message.id, look)
    answer = yield from ask("ReportActivity", message, kind, patience, change)
    return from_message(messages.ReportActivityResponse, answer)


def revise_workflow(
    message: workflows_pb2.ReviseWorkflowRequest, patience: Patience
) -> Program[messages.ReviseWorkflowResponse]:
    """Revises a workflow."""
    look = f"workflow({message.id!r}), or revise the same with change_id={message.change_id!r}"
    kind = workflows_pb2.ReviseWorkflowResponse
    change = None if message.plan_only else Change(message.id, look)
    answer = yield from ask("ReviseWorkflow", message, kind, patience, change)
    return from_message(messages.ReviseWorkflowResponse, answer)
