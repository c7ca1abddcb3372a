"""Generated from coalloc/v1/types.proto by tools/generate.py: change the schema, not this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from google.protobuf.message import Message

from coalloc._value import OpenEnum, Value
from coalloc.v1 import types_pb2


class Reason(OpenEnum):
    """The kind of a refusal."""

    UNSPECIFIED = 0
    """Not set."""
    INSUFFICIENT_CAPACITY = 1
    """Less than the requested amount is free somewhere in the window."""
    BEYOND_CAPACITY = 2
    """The requested amount is more than the capacity, so it would not fit even if nothing were
    booked.
    """
    UNKNOWN_RESOURCE = 3
    """The resource manager has no resource of that name."""
    OUTSIDE_HORIZON = 4
    """The window starts in the past or ends beyond the horizon of a resource manager."""
    NO_ROUTE = 5
    """There are enough CPUs, but no paths join the sites at the rates, latencies and lengths
    that were requested.
    """
    BUDGET_EXHAUSTED = 6
    """The planner's budget ended before it found a plan or proved that there is none."""
    UNREACHABLE = 7
    """Resource managers whose answer is needed did not answer in time."""
    ABORTED = 8
    """The transaction was aborted before this message arrived."""
    EXPIRED = 9
    """The hold expired before the commit arrived."""
    RELEASED = 10
    """The booking was released."""
    NOT_HELD = 11
    """There is no such hold, or no such booking that a new version could replace."""
    COORDINATOR_RESTARTED = 12
    """The coordinator stopped before it decided. Nothing is reserved."""
    TIMED_OUT = 13
    """Not all holds were made in time, or a hold expired before the decision."""
    MIXED = 14
    """Some bookings were made and others were refused. Those that were made are released again."""
    DENIED = 15
    """The resource manager does not accept messages of this coordinator about this transaction."""
    PLAN_OUTDATED = 16
    """The plan that was requested by its digest can no longer be made. The answer lists plans
    that can be made now.
    """
    SERVICE_LEVEL = 17
    """Enough is free, but the user's service level at the resource manager allows only a share
    of it.
    """
    REPLACED = 18
    """The booking was replaced by a newer version of its reservation."""
    DISK_FULL = 19
    """The disk of the daemon that refuses is nearly full. The space that is left is reserved for
    commits, aborts and releases of what is held and booked. Nothing was recorded. Once an
    operator has freed space, a later request can succeed.
    """
    QUOTA = 20
    """A quota of the coordinator or of the user is used up. The detail says which one, how much
    of it is used and how much is left. A later request can succeed, once something that
    counts towards the quota has ended.
    """
    UNSUPPORTED = 21
    """A resource manager that the plan needs runs a release that would not carry out the request
    as it is meant. The detail says what that release does not know. Nothing was held.
    """
    EQUIPMENT = 22
    """The equipment behind the resource manager says no, or cannot be reached. The detail says
    what it was, and what can be done.
    """


class BottleneckKind(OpenEnum):
    """What kind of resource, or combination of resources, is the bottleneck."""

    UNSPECIFIED = 0
    """Not set."""
    SITE = 1
    """The one site to which the request pins a demand. In CPUs, or in the unit of
    `resource_kind`.
    """
    SITES = 2
    """All sites together: each demand needs a site of its own, and too few sites have as much as
    these demands need. `requested` and `available` count sites; `resources` lists the sites
    that are too small.
    """
    PATH = 3
    """One path, which all of the demands have to take. In bit/s."""
    CUT = 4
    """Several paths that together separate some of the request's sites from the others (a cut),
    or one site from all others. `available` is the sum over these paths. In bit/s.
    """
    LENGTH = 5
    """No chain of paths is short enough, whatever the rates. `requested` is the number of paths
    in the shortest chain, `available` the number of paths that one link may take
    (max_paths_per_link).
    """
    LATENCY = 6
    """No chain of paths is fast enough, whatever the rates. `requested` is the latency of the
    fastest chain, `available` the latency that is allowed. In microseconds.
    """
    PATHS = 7
    """Several paths, one of which must carry the whole demand, because a link is not split.
    `available` is the largest amount that one of these paths has. In bit/s.
    """
    PACKING = 8
    """Several paths that together can carry too few of the demands, because a link is not split.
    `requested` and `available` count demands, each at the smallest rate (bit/s) among them.
    """
    COMBINATION = 9
    """Each part fits, but not all parts together: in the plan that came closest, these paths
    carry more than they have. If they had what is requested, the request would fit; another
    plan might need less. Sums over the paths, in bit/s.
    """


class Objective(OpenEnum):
    """What makes one plan better than another (Takefusa 2010, section 3.4). For every objective,
    less is better. A plan lists its value for each of them.
    """

    UNSPECIFIED = 0
    """Not set."""
    START = 1
    """(a) Reservation time: earlier starts are better. In microseconds since 1970."""
    PRICE = 2
    """(b) Price: unit price x amount x duration, by the price schedules. In thousandths of a
    point.
    """
    QUALITY = 3
    """(c) Quality: (1000 - quality) x amount, where 1000 is full quality. In points, with
    amounts in CPUs and Gbit/s.
    """
    LOAD = 4
    """(A) Load balancing: amount x the share of the resource that is taken in the frame. At a
    site the share includes the CPUs of this plan; on a path it includes one link of the
    request's mean rate. In thousandths of a CPU or of a Gbit/s.
    """
    PREFERENCE = 5
    """(B) Preferred resource managers: unit value x amount (Eq. 3). In thousandths of a point."""


@dataclass(frozen=True)
class Window(Value):
    """A half-open span of time: [start, end)."""

    _message_type: ClassVar[type[Message]] = types_pb2.Window

    start: datetime = field(kw_only=True)
    """The first instant inside the window. Required."""
    end: datetime = field(kw_only=True)
    """The first instant after the window. Required. Later than start, by at most 366 days."""

    @property
    def raw(self) -> types_pb2.Window:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Window)


@dataclass(frozen=True)
class Segment(Value):
    """One amount of one resource at one resource manager over one window."""

    _message_type: ClassVar[type[Message]] = types_pb2.Segment

    resource: str = ""
    """The resource, by a name that the resource manager's Describe gave. If the name is unknown,
    the hold is refused with REASON_UNKNOWN_RESOURCE.
    """
    amount: int = 0
    """The amount: 1 to 10,000,000 CPUs, 1 to 100,000,000 GB of storage, or 1 to 10^15 bit/s.
    Zero is INVALID_ARGUMENT.
    """
    window: Window = field(kw_only=True)
    """When the amount is taken."""
    resource_manager: str = ""
    """The resource manager that owns the resource. Set in plans and reservations. Ignored in a
    Hold, where it is always the receiver.
    """

    @property
    def raw(self) -> types_pb2.Segment:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Segment)


@dataclass(frozen=True)
class Version(Value):
    """Which release answers, and what it knows. What a caller relies on and an older release
    would ignore has a word. A caller looks here before it relies on it, and says so in the
    metadata of its call: `coalloc-needs`, with the words separated by commas. A receiver that
    does not know one of them answers UNIMPLEMENTED and has done nothing.
    """

    _message_type: ClassVar[type[Message]] = types_pb2.Version

    protocol: int = 0
    """The version of the protocol, 2 or higher. It rises with each new word."""
    capabilities: Sequence[str] = ()
    """The words that it knows: "one-way", "replaces", "keeps-old", "servers", "manual-
    provision", "series".
    """
    program: str = ""
    """The program and its release, for people: "coalloc 0.1.0"."""

    @property
    def raw(self) -> types_pb2.Version:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Version)


@dataclass(frozen=True)
class Refusal(Value):
    """Why something was not reserved. A refusal is an answer, not an error: the same request
    always gets the same refusal.
    """

    _message_type: ClassVar[type[Message]] = types_pb2.Refusal

    reason: Reason = Reason.UNSPECIFIED
    """The kind of the refusal; never unspecified."""
    resource_manager: str = ""
    """The resource manager that refused. Empty: the coordinator's planner."""
    resource: str = ""
    """The resource of which too little was free. Empty when it was no single resource."""
    window: Window | None = None
    """The window in which too little was free. Unset when no window is to blame."""
    requested: int | None = None
    """The requested amount, in the resource's unit. Unset when the refusal is not about an
    amount.
    """
    available: int | None = None
    """The available amount, in the resource's unit. Zero means that nothing was available. Unset
    when the refusal is not about an amount.
    """
    detail: str = ""
    """One sentence for people."""
    transient: bool = False
    """True: the same request under a new id may succeed later."""
    nsi_error: str = ""
    """The error number of NSI Connection Service 2.1 (GFD.235) that fits, "00705" for example.
    Empty: none fits.
    """
    bottleneck: Bottleneck | None = None
    """The bottleneck, as far as it is known: which amount is too small, and by how much."""

    @property
    def raw(self) -> types_pb2.Refusal:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Refusal)


@dataclass(frozen=True)
class Bottleneck(Value):
    """What made a request impossible in one frame. It describes what is available in that frame
    under the user's service level, or, with REASON_BEYOND_CAPACITY, the federation with
    nothing booked. `requested` is always more than `available`.
    """

    _message_type: ClassVar[type[Message]] = types_pb2.Bottleneck

    kind: BottleneckKind = BottleneckKind.UNSPECIFIED
    """The kind of bottleneck, which also says what the two numbers count."""
    demands: Sequence[str] = ()
    """The names of the request's sites or links ("a", "a-b") that cannot be served."""
    resources: Sequence[str] = ()
    """The resources that are too small: sites, paths ("path:ab" for one direction of a full-
    duplex path).
    """
    requested: int = 0
    """How much the demands need of these resources, in the unit of the kind."""
    available: int = 0
    """How much of these resources is available, in the unit of the kind."""
    resource_kind: str = ""
    """The further kind of resource that is too little at sites, "storage" for example;
    `requested` and `available` of BOTTLENECK_KIND_SITE are then in its unit. Empty: what
    `kind` says, or several kinds together.
    """

    @property
    def raw(self) -> types_pb2.Bottleneck:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Bottleneck)


@dataclass(frozen=True)
class Alternatives(Value):
    """What could be reserved instead, computed when the request itself cannot be planned."""

    _message_type: ClassVar[type[Message]] = types_pb2.Alternatives

    nearest_window: Window | None = None
    """The first window, from the requested start up to the horizon of the resource managers, in
    which the same request fits now. A request can only begin to fit when something that is
    booked ends, so every such instant up to this window was tried. Unset: there is no such
    window before searched_until.
    """
    nearest_plan: Plan | None = None
    """The plan in that window. Nothing is held for it."""
    smaller: Sequence[SmallerRequest] = ()
    """The same request with smaller amounts that fit the requested time. Each entry reduces one
    kind of amount, and no more than is needed while the other amounts stay as requested.
    """
    searched_until: datetime | None = None
    """No start before this instant fits, except that of nearest_window. Unset: there was no
    search, because the request would not fit even if nothing were booked.
    """
    complete: bool = False
    """False: the search ended before the horizon, because its time or its rounds were used up. A
    later start may fit, or more than an entry of smaller has; the entry says so.
    """
    starts_tried: int = 0
    """The number of starts that were tried."""

    @property
    def raw(self) -> types_pb2.Alternatives:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Alternatives)


@dataclass(frozen=True)
class SmallerRequest(Value):
    """A smaller request that fits."""

    _message_type: ClassVar[type[Message]] = types_pb2.SmallerRequest

    change: str = ""
    """What is smaller, for people: "3 CPUs a site instead of 8"."""
    request: CoAllocationRequest = field(kw_only=True)
    """The whole smaller request."""
    plan: Plan = field(kw_only=True)
    """Its best plan. Nothing is held for it."""

    @property
    def raw(self) -> types_pb2.SmallerRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.SmallerRequest)


@dataclass(frozen=True)
class CoAllocationRequest(Value):
    """A co-allocation as a user requests it: the content of a request file."""

    _message_type: ClassVar[type[Message]] = types_pb2.CoAllocationRequest

    sites: Sequence[SiteRequest] = ()
    """The requested sites, 1 to 32."""
    links: Sequence[LinkRequest] = ()
    """The requested links between these sites, at most 128; each ordered pair of sites at most
    once.
    """
    earliest_start: datetime | None = None
    """Earliest start. Unset: as soon as the coordinator can. A start in the past is outside the
    horizon of the resource managers, so they refuse it.
    """
    latest_start: datetime | None = None
    """Latest start, not before the earliest. Unset: the earliest start is the only one."""
    duration_us: int = field(kw_only=True)
    """Duration of the whole, 1 s to 366 days. Required. Every part (a kind of resource at a
    requested site, or a requested link) is wanted for all of it, unless the part has a window
    of its own, which lies within it. Parts may begin and end at most at 17 different
    instants, the start and the end of the whole included; more are INVALID_ARGUMENT. In
    microseconds.
    """
    user: str = ""
    """The user who makes the request. Empty: the caller, if it has proven to be a user, or else
    "anonymous". Recorded with every booking.
    """
    manual_provision: bool | None = None
    """True: the user cannot use the reservation, also not in its window, until Provision. False:
    the user can use it as soon as its window begins. Unset: false; with Modify, as it is.
    Resource managers without equipment let nobody in or out; the reservation is CONFIRMED in
    its window all the same. A client sends `manual-provision` in `coalloc-needs`, because an
    older coordinator ignores this field.
    """
    series: str = ""
    """The series to which the reservation belongs, a name like a request id; empty: none. It
    lists the reservations of one purpose (List), such as those of a weekly lecture, and
    changes nothing else. With Modify, empty: as it is; another series is INVALID_ARGUMENT. A
    client sends `series` in `coalloc-needs`, because an older coordinator ignores this field.
    """

    @property
    def raw(self) -> types_pb2.CoAllocationRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.CoAllocationRequest)


@dataclass(frozen=True)
class SiteRequest(Value):
    """One requested site."""

    _message_type: ClassVar[type[Message]] = types_pb2.SiteRequest

    name: str = ""
    """The name of this site within the request; unique in the request."""
    cpus: int = 0
    """CPUs, 1 to 10,000,000."""
    pinned_to: str | None = None
    """The one site of the federation at which it must be placed. Unset: any. INVALID_ARGUMENT
    when the federation does not have that site, or when two requested sites are pinned to the
    same one.
    """
    excluded: Sequence[str] = ()
    """Sites of the federation at which it must not be placed. Unknown names are
    INVALID_ARGUMENT.
    """
    others: Sequence[KindAmount] = ()
    """What is wanted at the same site besides CPUs, each kind at most once. The site of the
    federation must have enough of everything.
    """
    offset_us: int | None = None
    """When the site is wanted, counted from the common start: 0 s to the request's duration less
    1 s. Unset: from the common start on. A part that would begin later, or end after the
    whole, is INVALID_ARGUMENT; the answer names the allowed range. In microseconds.
    """
    length_us: int | None = None
    """For how long it is wanted: 1 s to what is left of the request's duration after the offset.
    Unset: all that is left. In microseconds.
    """

    @property
    def raw(self) -> types_pb2.SiteRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.SiteRequest)


@dataclass(frozen=True)
class KindAmount(Value):
    """An amount of one further kind of resource at a site."""

    _message_type: ClassVar[type[Message]] = types_pb2.KindAmount

    kind: str = ""
    """The word for the kind: "storage" (counted in GB, 10^9 bytes). Any other word is
    INVALID_ARGUMENT; the answer lists the words that there are.
    """
    amount: int = 0
    """The amount in the unit of the kind, at least 1. Storage: at most 100,000,000 GB. Zero is
    INVALID_ARGUMENT.
    """
    offset_us: int | None = None
    """When it is wanted, counted from the common start, and for how long; ranges as in
    SiteRequest. Both unset: in the window of the site request. If one of them is set, the
    kind has a window of its own: an unset offset is then the common start, and an unset
    length is all that is left. An activity of a workflow has its own times, so there both
    must be unset; if not, INVALID_ARGUMENT. In microseconds.
    """
    length_us: int | None = None
    """See offset. In microseconds."""

    @property
    def raw(self) -> types_pb2.KindAmount:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.KindAmount)


@dataclass(frozen=True)
class LinkRequest(Value):
    """One requested link: a connection from one requested site to another, which is not split
    over several routes.
    """

    _message_type: ClassVar[type[Message]] = types_pb2.LinkRequest

    from_: str = ""
    """Name of a site of this request."""
    to: str = ""
    """Name of another site of this request."""
    bandwidth_bps: int = 0
    """Rate in bit/s, 1 to 10^15. If both directions of a path share its capacity, the link takes
    this much of it. On a full-duplex path the link takes only the direction from `from` to
    `to`.
    """
    max_latency_us: int | None = None
    """The largest allowed sum of the latencies of the paths taken, 0 s to 10 s. Unset: any. In
    microseconds.
    """
    offset_us: int | None = None
    """When the link is wanted, counted from the common start: 0 s to the request's duration less
    1 s. Unset: from the common start on. It need not be a time in which its two sites are
    wanted. In microseconds.
    """
    length_us: int | None = None
    """For how long it is wanted: 1 s to what is left of the request's duration after the offset.
    Unset: all that is left. In microseconds.
    """

    @property
    def raw(self) -> types_pb2.LinkRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.LinkRequest)


@dataclass(frozen=True)
class PlanOptions(Value):
    """How plans are searched for. All fields may be unset."""

    _message_type: ClassVar[type[Message]] = types_pb2.PlanOptions

    frames: int | None = None
    """Number of time frames tried between earliest and latest start, 1 to 256. Unset: the
    coordinator's setting (10 unless configured).
    """
    max_paths_per_link: int | None = None
    """The largest number of paths that one link may take (N_max), 1 to 16. Unset: the
    coordinator's setting (4).
    """
    solver: str | None = None
    """The solver: "exact", "mip", or a baseline. A baseline takes the first plan that it finds,
    whatever it costs. The baselines are "backtrack" (Reserve holds the plan at one resource
    manager after the other, and tries the next choice when one refuses) and "sliding-window"
    (tries one start after the other, computers first, then paths; it ends at the first start
    that fits, and may miss plans). Unset: the coordinator's setting ("exact"). Any other name
    is INVALID_ARGUMENT.
    """
    objectives: Sequence[Objective] = ()
    """The objectives, most important first; each at most once. Empty: the coordinator's setting
    (start, then preference). Plans that are equal in all objectives listed are ordered by
    start, then by preference.
    """
    plans: int | None = None
    """Number of plans wanted (N'), 1 to 256. Unset: one for each frame that has a plan."""
    alternatives: bool | None = None
    """True: when nothing can be planned, search for alternatives (the nearest window, smaller
    amounts). Unset: true for Plan, false for Reserve and Modify.
    """

    @property
    def raw(self) -> types_pb2.PlanOptions:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.PlanOptions)


@dataclass(frozen=True)
class ObjectiveValue(Value):
    """The value of one plan by one objective."""

    _message_type: ClassVar[type[Message]] = types_pb2.ObjectiveValue

    objective: Objective = Objective.UNSPECIFIED
    """The objective."""
    value: int = 0
    """The plan's value, in the unit of the objective; less is better."""

    @property
    def raw(self) -> types_pb2.ObjectiveValue:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.ObjectiveValue)


@dataclass(frozen=True)
class PriceSchedule(Value):
    """The price of a resource by the time of day."""

    _message_type: ClassVar[type[Message]] = types_pb2.PriceSchedule

    utc_offset: str = ""
    """Offset of local time from UTC, "+09:00" for example. Empty: UTC. There is no daylight
    saving time.
    """
    bands: Sequence[PriceBand] = ()
    """The bands of a day, in order. They begin at 00:00, end at 24:00 and leave no gap."""

    @property
    def raw(self) -> types_pb2.PriceSchedule:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.PriceSchedule)


@dataclass(frozen=True)
class PriceBand(Value):
    """One band of a day."""

    _message_type: ClassVar[type[Message]] = types_pb2.PriceBand

    from_: str = ""
    """"HH:MM": the first minute of the band."""
    to: str = ""
    """"HH:MM": the end of the band, itself excluded; up to "24:00"."""
    unit_price_millipoints: int = 0
    """Price in thousandths of a point for one CPU, or one Gbit/s, for one hour; 0 to
    1,000,000,000.
    """

    @property
    def raw(self) -> types_pb2.PriceBand:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.PriceBand)


@dataclass(frozen=True)
class Placement(Value):
    """Where one requested site is placed."""

    _message_type: ClassVar[type[Message]] = types_pb2.Placement

    site: str = ""
    """The name of the site within the request."""
    at: str = ""
    """The name of the federation's site."""
    cpus: int = 0
    """CPUs taken at that site."""
    others: Sequence[KindAmount] = ()
    """What is taken at that site besides CPUs, by kind. A kind that is not taken for the whole
    of `window` has its offset and length from the common start, as in the request.
    """
    window: Window | None = None
    """When the CPUs are taken. Unset: in the window of the plan."""

    @property
    def raw(self) -> types_pb2.Placement:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Placement)


@dataclass(frozen=True)
class Route(Value):
    """The route of one requested link."""

    _message_type: ClassVar[type[Message]] = types_pb2.Route

    from_: str = ""
    """The request's name of the site at which the link starts."""
    to: str = ""
    """The request's name of the site at which the link ends."""
    bandwidth_bps: int = 0
    """Rate in bit/s."""
    paths: Sequence[str] = ()
    """Names of the paths taken, in order from start to end."""
    via: Sequence[str] = ()
    """Sites and exchange points on the route, from start to end, both included: one more than
    there are paths.
    """
    latency_us: int | None = None
    """Sum of the latencies of the paths. In microseconds."""
    window: Window | None = None
    """When the link is taken. Unset: in the window of the plan."""

    @property
    def raw(self) -> types_pb2.Route:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Route)


@dataclass(frozen=True)
class Plan(Value):
    """A plan: one possible answer to a request. It holds nothing."""

    _message_type: ClassVar[type[Message]] = types_pb2.Plan

    digest: str = ""
    """SHA-256 over the segments, in hexadecimal. Two plans that reserve the same segments have
    the same digest.
    """
    window: Window = field(kw_only=True)
    """When the co-allocation takes place, from the common start to the end of the whole. Each
    segment has its own window within it.
    """
    placements: Sequence[Placement] = ()
    """Where each requested site is placed, in the request's order."""
    routes: Sequence[Route] = ()
    """The route of each requested link, in the request's order."""
    segments: Sequence[Segment] = ()
    """What will be held, and at which resource manager."""
    cost_millipoints: int = 0
    """The cost (Takefusa 2010, Eq. 3), in thousandths of a point: CPUs times points per CPU,
    plus Gbit/s times points per Gbit/s on every path taken.
    """
    lower_bound_millipoints: int = 0
    """A lower bound on the cost, in thousandths of a point: no plan of this frame that is as
    good in every objective ranked before preference costs less.
    """
    proven_optimal: bool = False
    """True: no plan of this frame is better by all objectives in their order. False: another
    plan may be better. If preference is the first objective that differs between plans of one
    frame, this plan costs at most (cost - lower bound) more than the best.
    """
    values: Sequence[ObjectiveValue] = ()
    """The value of every objective, in the order in which plans were ranked; objectives that did
    not count come last. If a reservation was changed while it was active, start and price are
    those of the whole reservation, by the price schedules at the time of the change; quality,
    load and preference (and cost_millipoints) are those of the part since the change. Price
    is missing when a resource that the reservation had before is no longer known.
    """
    solver: str = ""
    """The solver that made the plan, by its name in PlanOptions: the one that was requested, or
    "mip" when the budget of "exact" was used up first.
    """
    coarse: Sequence[Objective] = ()
    """Objectives that were counted in coarser steps than their own, because 63 bits are not
    enough for all; the most important objectives are exact. Empty: all are exact.
    """

    @property
    def raw(self) -> types_pb2.Plan:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.Plan)


@dataclass(frozen=True)
class RefusedFrame(Value):
    """Why one frame has no plan."""

    _message_type: ClassVar[type[Message]] = types_pb2.RefusedFrame

    window: Window = field(kw_only=True)
    """The frame."""
    refusal: Refusal = field(kw_only=True)
    """Why it has no plan."""

    @property
    def raw(self) -> types_pb2.RefusedFrame:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(types_pb2.RefusedFrame)
