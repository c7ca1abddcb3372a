"""Generated from coalloc/v1/coordinator.proto by tools/generate.py: change the schema, not this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from google.protobuf.message import Message

from coalloc._value import OpenEnum, Value
from coalloc.messages.resource_manager import (
    DataPlane,
    DescribeResponse,
    GrantedServers,
    IdleServer,
    ServerChoice,
)
from coalloc.messages.types import (
    Alternatives,
    CoAllocationRequest,
    Plan,
    PlanOptions,
    Refusal,
    RefusedFrame,
    Version,
)
from coalloc.messages.workflows import WorkflowSummary
from coalloc.v1 import coordinator_pb2


class ReservationState(OpenEnum):
    """The life cycle of a reservation. States that NSI Connection Service 2.1 has, have its
    names.
    """

    UNSPECIFIED = 0
    """Not set."""
    CHECKING = 1
    """Being planned, or being held at the resource managers. Nothing is promised."""
    COMMITTING = 2
    """The decision is commit: every resource manager holds its part. All parts will be booked."""
    CONFIRMED = 3
    """Booked, durably, at every resource manager. It is not in use: see ACTIVE."""
    ABORTING = 4
    """The decision is abort. The holds are being ended."""
    FAILED = 5
    """Nothing is reserved; see `refusal`."""
    TERMINATING = 6
    """Being released."""
    TERMINATED = 7
    """Released."""
    PASSED_END_TIME = 8
    """It was confirmed, and its window is over."""
    HELD = 9
    """Every resource manager holds its part; the parent coordinator decides."""
    ACTIVE = 10
    """Confirmed, and in use: its window has begun, and where a resource manager has equipment
    behind it, the user has been let in there. While equipment that should be in use is not,
    it is CONFIRMED, with `equipment_trouble`. One that is not provisioned is CONFIRMED.
    """


class ChangeState(OpenEnum):
    """The state of a change."""

    UNSPECIFIED = 0
    """Not set."""
    CHECKING = 1
    """Being planned, or being held. The old version is whole."""
    COMMITTING = 2
    """The decision is commit: every resource manager holds its part. The new version will be
    booked.
    """
    DONE = 3
    """The new version is booked everywhere; the old version is gone."""
    REFUSED = 4
    """Nothing has changed; see `refusal`."""


class DifferenceKind(OpenEnum):
    """How a booking differs."""

    UNSPECIFIED = 0
    """Not set."""
    MISSING_THERE = 1
    """Confirmed here and not over, but not booked at the resource manager."""
    UNKNOWN_HERE = 2
    """Booked at the resource manager in this coordinator's name, but here the transaction is
    unknown, has failed, or is over.
    """
    OTHER_CONTENT = 3
    """Confirmed here and booked at the resource manager, but with other content."""
    UNUSABLE = 4
    """Confirmed here and booked at the resource manager, but something of its equipment cannot
    be used, such as a node that is down.
    """


class RepairKind(OpenEnum):
    """The repair that is offered for a difference."""

    UNSPECIFIED = 0
    """No repair is offered."""
    BOOK_AGAIN = 1
    """Book it again, as a change of the reservation to its present version. Refused if the
    capacity was booked by somebody else.
    """
    RELEASE = 2
    """Release what the resource manager has booked."""
    RELOCATE = 3
    """Move it onto other equipment, as a change of the reservation that wants the same: at the
    same sites if they have other equipment that is free, otherwise at others. What has begun
    goes on there from now on. Refused if nothing is free; the reservation then stays as it
    is.
    """


@dataclass(frozen=True)
class PlanResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.PlanResponse

    plans: Sequence[Plan] = ()
    """Ordered by start, earliest first; plans with the same start by cost, lowest first."""
    refused: Sequence[RefusedFrame] = ()
    """The frames without a plan, with the reasons."""
    unreachable: Sequence[str] = ()
    """Resource managers that did not answer; their resources counted as not free."""
    alternatives: Alternatives | None = None
    """What could be reserved instead. Unset when there is a plan."""

    @property
    def raw(self) -> coordinator_pb2.PlanResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.PlanResponse)


@dataclass(frozen=True)
class Change(Value):
    """A change of a reservation."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.Change

    change_id: str = ""
    """The client's id of this change."""
    state: ChangeState = ChangeState.UNSPECIFIED
    """The state of this change."""
    plan: Plan | None = None
    """The plan of the new version, as long as it is not booked."""
    refusal: Refusal | None = None
    """Why nothing changed."""
    attempts: int = 0
    """Number of plans tried."""

    @property
    def raw(self) -> coordinator_pb2.Change:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.Change)


@dataclass(frozen=True)
class Reservation(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.Reservation

    id: str = ""
    """The id that the coordinator gave. Empty when the request was refused before it became a
    reservation.
    """
    request_id: str = ""
    """The client's id of the request."""
    user: str = ""
    """The user whose reservation it is."""
    state: ReservationState = ReservationState.UNSPECIFIED
    """The state of the reservation."""
    plan: Plan | None = None
    """The plan that is being reserved, or that is booked. Unset when there was none."""
    refusal: Refusal | None = None
    """Why it failed. Unset otherwise."""
    definite: bool = False
    """True: the state will not change by itself; and if it is FAILED, nothing is held anywhere,
    except at resource managers in `given_up` that have not ended it. False: the reservation
    is being completed or cleaned up; call Get to follow it.
    """
    attempts: int = 0
    """Number of plans tried, including the one in `plan`."""
    transaction: str = ""
    """The transaction of the last attempt, by the id that all logs use."""
    created: datetime = field(kw_only=True)
    """When the coordinator made the reservation."""
    unreachable: Sequence[str] = ()
    """Resource managers that did not answer while the request was planned."""
    attempt_refusals: Sequence[Refusal] = ()
    """Why each attempt before the last one failed, oldest first."""
    request: CoAllocationRequest | None = None
    """The request, of the version that is booked. Unset when planning refused the request and
    its JSON has more than 16 KiB: then only its digest is kept.
    """
    version: int = 0
    """1 when the reservation is made; one more after each change that is booked."""
    change: Change | None = None
    """The last change. Unset: no change was ever requested."""
    expires_in_us: int | None = None
    """Time from now until the first of its holds expires. Unset unless it is being held. In
    microseconds.
    """
    alternatives: Alternatives | None = None
    """What could be reserved instead, when the reservation failed, or when a change of one that
    has not begun was refused. Only in answers to Reserve and Modify, and only if it was
    requested: it is not remembered.
    """
    options: PlanOptions | None = None
    """How plans were searched for, as it was requested, of the version that is booked. For
    fields that are unset here the coordinator's setting was used, and will be used for a
    change. Unset: the request had no options, or they were not recorded (older releases).
    """
    given_up: Sequence[GivenUp] = ()
    """Resource managers that an operator has given up on. They count as having acknowledged the
    end of the reservation, and may have it booked until they return. Every statement that
    nothing is reserved excepts these.
    """
    servers: Sequence[GrantedServers] = ()
    """The servers that it has at by-server sites, or had before it was released. Empty before
    the decision.
    """
    allocation: AllocateRequest | None = None
    """The allocation, when Allocate made the reservation; `request` is then unset. Without
    `picked` when planning refused it and its JSON has more than 16 KiB.
    """
    workflow: WorkflowSummary | None = None
    """The workflow in numbers, when SubmitWorkflow made the reservation and there was a plan;
    `request` is then unset, and `plan` has neither placements nor routes nor segments.
    GetWorkflow has them.
    """
    equipment_trouble: Sequence[EquipmentTrouble] = ()
    """What is wrong with it at the equipment behind resource managers, as they have told it. One
    entry for each resource manager. GetDataPlane asks them.
    """
    manual_provision: bool = False
    """True: its user is not let in before Provision. It is then CONFIRMED in its window."""
    awaited: Sequence[str] = ()
    """Resource managers that have been told what was decided (to book, or to end) and have not
    acknowledged it: what the reservation waits for. Empty while nothing is decided, and in
    streams of changes.
    """

    @property
    def raw(self) -> coordinator_pb2.Reservation:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.Reservation)


@dataclass(frozen=True)
class EquipmentTrouble(Value):
    """What is wrong with a reservation at the equipment behind a resource manager."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.EquipmentTrouble

    resource_manager: str = ""
    """Name of the resource manager."""
    trouble: str = ""
    """What is wrong, in a sentence for people."""

    @property
    def raw(self) -> coordinator_pb2.EquipmentTrouble:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.EquipmentTrouble)


@dataclass(frozen=True)
class GetQuotaResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.GetQuotaResponse

    user: str = ""
    """The user."""
    reservations: int = 0
    """Number of live reservations: those that are not over, released, or past the end of their
    last window.
    """
    reservations_max: int = 0
    """The most live reservations."""
    hours: Sequence[HoursQuota] = ()
    """What they take from now on, for each kind that they take or that has a limit."""
    calls_per_second_max: int = 0
    """The most calls a second; 0 when calls are not counted."""

    @property
    def raw(self) -> coordinator_pb2.GetQuotaResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.GetQuotaResponse)


@dataclass(frozen=True)
class MakeCalendarAddressResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.MakeCalendarAddressResponse

    secret: str = field(default="", repr=False)
    """The secret, 64 hexadecimal digits."""
    path: str = field(default="", repr=False)
    """Where the web listener has the calendar: `/calendar/SECRET.ics`."""
    expires: datetime | None = None
    """When the address ends."""

    @property
    def raw(self) -> coordinator_pb2.MakeCalendarAddressResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.MakeCalendarAddressResponse)


@dataclass(frozen=True)
class GetCalendarAddressResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.GetCalendarAddressResponse

    user: str = ""
    """The user."""
    made: datetime | None = None
    """When the address was made. Unset: there is none."""
    expires: datetime | None = None
    """When the address ends. Unset: there is none."""

    @property
    def raw(self) -> coordinator_pb2.GetCalendarAddressResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.GetCalendarAddressResponse)


@dataclass(frozen=True)
class RevokeCalendarAddressResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.RevokeCalendarAddressResponse

    revoked: bool = False
    """Whether there was an address."""

    @property
    def raw(self) -> coordinator_pb2.RevokeCalendarAddressResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.RevokeCalendarAddressResponse)


@dataclass(frozen=True)
class ReadCalendarResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ReadCalendarResponse

    reservations: Sequence[Reservation] = ()
    """The reservations that are booked or being held, or were, in the order in which they were
    made. Of each there is who reserved it, its ids, its state and version, when it was made,
    when and where it is, and how many CPUs and bit/s. All other fields are unset.
    """
    next_page_token: str = ""
    """The token of the next page. Empty: this is the last one."""

    @property
    def raw(self) -> coordinator_pb2.ReadCalendarResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ReadCalendarResponse)


@dataclass(frozen=True)
class HoursQuota(Value):
    """An amount times time, of one kind."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.HoursQuota

    kind: str = ""
    """The kind: cpus, storage, bandwidth."""
    unit: str = ""
    """The unit: CPU-hours, GB-hours, Gbit/s-hours."""
    reserved_thousandths: int = 0
    """What is reserved from now on, in thousandths of the unit, rounded up."""
    max_thousandths: int | None = None
    """The most, in thousandths of the unit. Unset: no limit."""

    @property
    def raw(self) -> coordinator_pb2.HoursQuota:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.HoursQuota)


@dataclass(frozen=True)
class SearchServersResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.SearchServersResponse

    servers: Sequence[IdleServer] = ()
    """The idle servers, ordered by resource manager, then as its configuration lists them."""
    more: bool = False
    """True: there are more than `limit`."""
    silent: Sequence[SilentResourceManager] = ()
    """Resource managers with by-server sites that did not answer, or do not let this coordinator
    look. If no site is named, also those that have not described themselves yet.
    """

    @property
    def raw(self) -> coordinator_pb2.SearchServersResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.SearchServersResponse)


@dataclass(frozen=True)
class SilentResourceManager(Value):
    """A resource manager that did not say which of its servers are idle."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.SilentResourceManager

    name: str = ""
    """Its name."""
    problem: str = ""
    """Why, in one sentence."""

    @property
    def raw(self) -> coordinator_pb2.SilentResourceManager:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.SilentResourceManager)


@dataclass(frozen=True)
class AllocateRequest(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.AllocateRequest

    request_id: str = ""
    """An id chosen by the client. The same id with the same content is the same request and gets
    the same answer. The same id with other content is ALREADY_EXISTS. Required.
    """
    user: str = ""
    """The user who makes the request. Empty: the caller, if it has proven to be a user, or else
    "anonymous".
    """
    servers: int = 0
    """How many servers, 1 to 10,000. With `picked`: their number, or 0."""
    cpus: int = 0
    """The CPUs of all servers together, as a check: if it is not 0, only sites whose `servers`
    servers have just so many are used, and if there are none the request is INVALID_ARGUMENT.
    """
    picked: Sequence[str] = ()
    """The servers to take, by their whole names SITE/NAME, all of one site. Empty: any `servers`
    idle ones.
    """
    site: str = ""
    """The site. Empty: any."""
    duration_us: int = field(kw_only=True)
    """How long, 1 s to 366 days. Required. In microseconds."""
    earliest_start: datetime | None = None
    """Earliest start. Unset: as soon as the coordinator can."""
    latest_start: datetime | None = None
    """Latest start, not before the earliest. Unset: as late as the resource managers' horizons
    allow; but the earliest start, if servers are picked and neither `step` nor `attempts` is
    set.
    """
    step_us: int | None = None
    """Starts are tried at the earliest start plus a multiple of this, 1 s to 1 day. Unset: at
    the earliest start, and then whenever servers become idle, so that the first start at
    which it fits is found. Starts at which a picked server was found to be taken are left
    out. In microseconds.
    """
    attempts: int | None = None
    """The most starts that are tried, 1 to 100,000. With a step, the last of them must not be
    after the latest start. Unset: all up to the latest start.
    """
    choice: ServerChoice = ServerChoice.UNSPECIFIED
    """Which of the idle servers are taken."""

    @property
    def raw(self) -> coordinator_pb2.AllocateRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.AllocateRequest)


@dataclass(frozen=True)
class GivenUp(Value):
    """A resource manager that an operator has given up on, for one transaction of a reservation."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.GivenUp

    resource_manager: str = ""
    """Name of the resource manager."""
    transaction: str = ""
    """The transaction that the resource manager was to end."""
    by: str = ""
    """The operator who gave up."""
    why: str = ""
    """The reason that was given."""
    time: datetime = field(kw_only=True)
    """When the operator gave up, by the coordinator's clock."""
    booked_until: datetime | None = None
    """Until then the resource manager may have the transaction booked. Unset: it should have
    nothing booked under it.
    """
    ended: datetime | None = None
    """When the resource manager acknowledged the end after all: it then has nothing left of the
    transaction. Unset: the coordinator is still sending the release.
    """

    @property
    def raw(self) -> coordinator_pb2.GivenUp:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.GivenUp)


@dataclass(frozen=True)
class ReservationEvent(Value):
    """One state change of one reservation."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ReservationEvent

    sequence: int = 0
    """The number of the ledger record behind this event. It rises from event to event; not every
    number is an event.
    """
    resume_token: str = ""
    """The token to resume the watch after this event."""
    time: datetime = field(kw_only=True)
    """When it happened, by the coordinator's clock."""
    reservation: str = ""
    """The id of the reservation."""
    request_id: str = ""
    """The client's id of its request."""
    user: str = ""
    """The user whose reservation it is."""
    state: ReservationState = ReservationState.UNSPECIFIED
    """The state after this change. UNSPECIFIED when an older release, which did not record the
    state, wrote the record.
    """
    version: int = 0
    """The version that is booked; 0 as long as none is."""
    what: str = ""
    """What happened, in one sentence for people."""
    transaction: str = ""
    """The transaction of the attempt that this happened to. Empty: there was no attempt yet."""
    refusal: Refusal | None = None
    """Why, when something was refused."""
    expires_in_us: int | None = None
    """Time from `time` until the first of the holds expires, at the earliest. Unset unless it is
    being held. In microseconds.
    """
    equipment_trouble: Sequence[EquipmentTrouble] = ()
    """What is wrong at the equipment behind resource managers, when the event is about that."""

    @property
    def raw(self) -> coordinator_pb2.ReservationEvent:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ReservationEvent)


@dataclass(frozen=True)
class GetDataPlaneResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.GetDataPlaneResponse

    data_plane: Sequence[DataPlane] = ()
    """One entry for each resource that some equipment has, ordered by resource manager. Empty
    when no resource manager of the reservation has a driver, or nothing is there.
    """
    silent: Sequence[SilentResourceManager] = ()
    """Resource managers that gave no answer, with the reason."""

    @property
    def raw(self) -> coordinator_pb2.GetDataPlaneResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.GetDataPlaneResponse)


@dataclass(frozen=True)
class DescribeFederationResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.DescribeFederationResponse

    coordinator: str = ""
    """The coordinator's name."""
    resource_managers: Sequence[ResourceManagerStatus] = ()
    """Every configured resource manager."""
    exchange_points: Sequence[str] = ()
    """Names of the exchange points."""
    ledger_id: str = ""
    """Identity of the coordinator's ledger, 32 hexadecimal digits."""
    not_configured: Sequence[OwedElsewhere] = ()
    """Resource managers that are not configured (any more) and still have to acknowledge
    something. The messages are sent once the resource manager is configured again.
    """
    version: Version | None = None
    """The coordinator's release, and what that knows. Unset: a release before this field."""

    @property
    def raw(self) -> coordinator_pb2.DescribeFederationResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.DescribeFederationResponse)


@dataclass(frozen=True)
class OwedElsewhere(Value):
    """A resource manager that is not configured and has not acknowledged everything."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.OwedElsewhere

    name: str = ""
    """Name of the resource manager."""
    owed: int = 0
    """The same as `owed` of ResourceManagerStatus."""
    releases_owed: int = 0
    """The same as `releases_owed` of ResourceManagerStatus."""

    @property
    def raw(self) -> coordinator_pb2.OwedElsewhere:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.OwedElsewhere)


@dataclass(frozen=True)
class ResourceManagerStatus(Value):
    """What a coordinator knows of one resource manager."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ResourceManagerStatus

    name: str = ""
    """The configured name."""
    address: str = ""
    """Its address, as host:port."""
    reachable: bool = False
    """True: it answered Describe, under its configured name."""
    problem: str = ""
    """Why it is not reachable. Empty when it is."""
    description: DescribeResponse | None = None
    """Its last answer to Describe. Unset when it never answered."""
    denies: bool = False
    """True: it says that this coordinator may not hold there, because its configuration
    (`coordinators`) does not name this coordinator. What is free there is still seen, but a
    plan that uses it is refused.
    """
    differences: int = 0
    """Number of differences between its bookings and those that this coordinator counts on; see
    ListDifferences.
    """
    owed: int = 0
    """Number of transactions whose decision it has not acknowledged, and which wait for that. As
    long as it answers, these are transactions in progress.
    """
    releases_owed: int = 0
    """Number of releases that it has not acknowledged and that no reservation waits for: an
    operator gave up on it, or what it has booked belongs to no reservation.
    """
    foreign_names: Sequence[ForeignName] = ()
    """Sites and paths that it describes and that belong to another resource manager, the first
    20 of them. They are ignored, and `description` is without them; whatever else it
    describes is used.
    """
    foreign_names_total: int = 0
    """Number of all these sites and paths."""
    not_used: str = ""
    """Why nothing is planned on what it describes, although it answers: with what the others
    describe there is no room for it. Empty: what it describes is used.
    """
    certificate: CertificateLife | None = None
    """The life of the certificate by which it proved who it is when the coordinator last
    connected to it, which is an hour ago at most. Unset in plain text, and before the first
    connection.
    """
    described: datetime | None = None
    """When it last answered Describe under its configured name, by the coordinator's clock: what
    `description` says is as old. It is asked every two seconds. Unset when `description` is.
    """

    @property
    def raw(self) -> coordinator_pb2.ResourceManagerStatus:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ResourceManagerStatus)


@dataclass(frozen=True)
class CertificateLife(Value):
    """How long a certificate is valid."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.CertificateLife

    not_before: datetime = field(kw_only=True)
    """From when on."""
    not_after: datetime = field(kw_only=True)
    """Until when."""

    @property
    def raw(self) -> coordinator_pb2.CertificateLife:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.CertificateLife)


@dataclass(frozen=True)
class ForeignName(Value):
    """The name of a site or a path that a resource manager describes, but that belongs to
    another one.
    """

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ForeignName

    site: str = ""
    """The name of the site. Empty when it is a path."""
    path: str = ""
    """The name of the path. Empty when it is a site."""
    owner: str = ""
    """The resource manager that the name belongs to: the configuration says so (`owns`), or it
    comes first there.
    """

    @property
    def raw(self) -> coordinator_pb2.ForeignName:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ForeignName)


@dataclass(frozen=True)
class ListDifferencesResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ListDifferencesResponse

    resource_managers: Sequence[ComparedBookings] = ()
    """One entry for each resource manager that the request covers, ordered by name."""

    @property
    def raw(self) -> coordinator_pb2.ListDifferencesResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ListDifferencesResponse)


@dataclass(frozen=True)
class ComparedBookings(Value):
    """The result of the last comparison with one resource manager."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.ComparedBookings

    resource_manager: str = ""
    """Name of the resource manager."""
    time: datetime | None = None
    """When the comparison was made, by the coordinator's clock. Unset: none was made yet."""
    problem: str = ""
    """Why the last try to compare failed. Empty: it did not fail."""
    differences: Sequence[BookingDifference] = ()
    """The differences, at most 1,000, ordered by the names of their transactions."""
    more: int = 0
    """The number of further differences, which are not listed. They will be, once those before
    them are repaired.
    """

    @property
    def raw(self) -> coordinator_pb2.ComparedBookings:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.ComparedBookings)


@dataclass(frozen=True)
class BookingDifference(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.BookingDifference

    transaction: str = ""
    """The transaction whose booking differs."""
    kind: DifferenceKind = DifferenceKind.UNSPECIFIED
    """How the booking differs."""
    reservation: str = ""
    """The reservation that the transaction belongs to. Empty: this coordinator's ledger does not
    know the transaction.
    """
    user: str = ""
    """The user whose reservation it is. Empty when the ledger does not know the transaction."""
    ends: datetime | None = None
    """When the booking ends."""
    repair: RepairKind = RepairKind.UNSPECIFIED
    """The repair that is offered."""
    why: str = ""
    """One sentence for people: what this coordinator has recorded, and why this repair or no
    repair is offered.
    """

    @property
    def raw(self) -> coordinator_pb2.BookingDifference:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.BookingDifference)


@dataclass(frozen=True)
class RepairResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.RepairResponse

    reservation: Reservation | None = None
    """With BOOK_AGAIN and RELOCATE: the reservation. It is booked again, or moved, when
    `change.state` is CHANGE_STATE_DONE.
    """
    released: bool = False
    """With RELEASE: true when the resource manager has acknowledged. False: the release is still
    being sent.
    """

    @property
    def raw(self) -> coordinator_pb2.RepairResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.RepairResponse)


@dataclass(frozen=True)
class GiveUpResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = coordinator_pb2.GiveUpResponse

    reservation: Reservation | None = None
    """With an id: the reservation."""
    given_up: Sequence[str] = ()
    """With `all`: the reservations for which the resource manager was given up on."""
    more: int = 0
    """With `all`: the number of reservations that are left; call again for them."""
    wanted: int = 0
    """With `all`: the number of reservations that were left as they are, because they want
    something other than an end from this resource manager, or because a parent coordinator
    has them.
    """

    @property
    def raw(self) -> coordinator_pb2.GiveUpResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(coordinator_pb2.GiveUpResponse)
