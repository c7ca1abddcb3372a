"""What can go wrong, as exceptions with values.

`Refused` is an answer: it is certain that nothing was reserved or changed. `Indefinite` says that the outcome is not known (yet),
and where to look. All others say that the call did nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coalloc._details import FieldProblem
from coalloc._shortage import shortage_of
from coalloc.messages import BottleneckKind, Reason

if TYPE_CHECKING:
    from coalloc.messages import (
        Alternatives,
        Bottleneck,
        CoAllocationRequest,
        Plan,
        Refusal,
        Reservation,
        TaskReceipt,
        Window,
        WorkflowReceipt,
    )


class CoallocError(Exception):
    """Everything that this package raises about a call."""


class CallFailed(CoallocError):
    """The call failed at the coordinator; `code` is the gRPC code."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class Unreachable(CoallocError):
    """No coordinator answered for as long as the client was patient. Nothing was changed."""


class InvalidRequest(CoallocError):
    """The request is not valid: `fields` says which fields, and what is allowed. Nothing was done."""

    def __init__(self, text: str, fields: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(text)
        self.fields = fields

    @property
    def field(self) -> str:
        """The first of the fields; empty when none was named."""
        return self.fields[0].field if self.fields else ""


class NotFound(CoallocError):
    """There is no such thing: `kind` and `name` say what."""

    def __init__(self, text: str, kind: str = "", name: str = "") -> None:
        super().__init__(text)
        self.kind = kind
        self.name = name


class OtherContent(CoallocError):
    """The id was used before with other content. Nothing was done; choose a new id."""


class NotAllowed(CoallocError):
    """The caller may not do this, or has not proven who it is."""


class NotNow(CoallocError):
    """The thing that the call is about is not in a state that allows it. Nothing was done."""


class Unsupported(CoallocError):
    """The coordinator runs a release that does not know what the call needs. Nothing was done."""


class Busy(CoallocError):
    """The coordinator takes no more calls now. Nothing was done; `retry_after_us` says when to call again, in microseconds."""

    def __init__(self, text: str, retry_after_us: int | None = None) -> None:
        super().__init__(text)
        self.retry_after_us = retry_after_us


class Indefinite(CoallocError):
    """The outcome of a call that changes something is not known, or not final yet.

    `look` says what to call to learn it. Calling the same again with the same id is always right: nothing is done twice.
    """

    def __init__(
        self,
        text: str,
        *,
        id: str,
        look: str,
        reservation: Reservation | None = None,
    ) -> None:
        super().__init__(f"{text}; to learn the outcome: {look}")
        self.id = id
        """The id of the request or of the reservation, with which it can be looked up."""
        self.look = look
        """The call to make."""
        self.reservation = reservation
        """What the coordinator last said of it. None: it said nothing."""


class Refused(CoallocError):
    """Nothing was reserved or changed, and this is why."""

    def __init__(
        self,
        refusal: Refusal,
        *,
        request: CoAllocationRequest | None = None,
        alternatives: Alternatives | None = None,
        fresh_plans: tuple[Plan, ...] = (),
        reservation: Reservation | None = None,
        receipt: TaskReceipt | WorkflowReceipt | None = None,
    ) -> None:
        super().__init__(refusal.detail or refusal.reason.name)
        self.refusal = refusal
        """The refusal as the coordinator gave it."""
        self.alternatives = alternatives
        """What could be reserved instead. None: it was not asked for (`PlanOptions.alternatives`), or there is nothing."""
        self.fresh_plans = fresh_plans
        """With `Reason.PLAN_OUTDATED`: the plans that can be made now, best first."""
        self.reservation = reservation
        """The reservation: failed, or as it was before a change that was refused. None: it is a workflow or a task."""
        self.receipt = receipt
        """The receipt of a task or a workflow, with every try."""
        self.fields = fields_of(refusal, request)
        """The fields of the request that want too much, as the schema names them. Empty: no particular ones."""

    @property
    def field(self) -> str:
        """The first of the fields; empty when there is no particular one."""
        return self.fields[0] if self.fields else ""

    @property
    def reason(self) -> Reason:
        """The kind of the refusal."""
        return self.refusal.reason

    @property
    def bottleneck(self) -> Bottleneck | None:
        """What binds, as far as it is known."""
        return self.refusal.bottleneck

    @property
    def resource(self) -> str:
        """The resource of which there is too little; several with commas between. Empty when it was no resource."""
        return shortage_of(self.refusal).resource

    @property
    def window(self) -> Window | None:
        """The window in which too little was free."""
        return self.refusal.window

    @property
    def requested(self) -> int | None:
        """What was wanted, in `unit`. None: the refusal is not about an amount."""
        return shortage_of(self.refusal).requested

    @property
    def available(self) -> int | None:
        """What is there, in `unit`. None: the refusal is not about an amount."""
        return shortage_of(self.refusal).available

    @property
    def shortage(self) -> int | None:
        """By how much it is too little, in `unit`. None: the refusal is not about an amount."""
        return shortage_of(self.refusal).amount

    @property
    def unit(self) -> str:
        """What the amounts count: CPUs, GB of storage, bit/s, sites, paths, us (microseconds), links.

        Empty: the unit of `resource`, which the resource manager that refused did not name.
        """
        return shortage_of(self.refusal).unit

    @property
    def is_transient(self) -> bool:
        """Whether the same request under a new id may succeed later."""
        return self.refusal.transient


def fields_of(refusal: Refusal, request: CoAllocationRequest | None) -> tuple[str, ...]:
    """The fields of a request that a refusal is about."""
    if refusal.reason == Reason.OUTSIDE_HORIZON:
        return ("earliest_start",)
    bottleneck = refusal.bottleneck
    if bottleneck is None or request is None:
        return ()
    if bottleneck.kind == BottleneckKind.LENGTH:
        return ("options.max_paths_per_link",)
    site_field = "others" if bottleneck.resource_kind else "cpus"
    link_field = "max_latency" if bottleneck.kind == BottleneckKind.LATENCY else "bandwidth_bps"
    sites = {one.name: f"sites[{i}].{site_field}" for i, one in enumerate(request.sites)}
    links = {f"{one.from_}-{one.to}": i for i, one in enumerate(request.links)}
    found = [
        sites[demand] if demand in sites else f"links[{links[demand]}].{link_field}"
        for demand in bottleneck.demands
        if demand in sites or demand in links
    ]
    return tuple(found)
