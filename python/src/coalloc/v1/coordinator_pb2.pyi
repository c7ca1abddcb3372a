from coalloc.v1 import resource_manager_pb2 as _resource_manager_pb2
from coalloc.v1 import tasks_pb2 as _tasks_pb2
from coalloc.v1 import types_pb2 as _types_pb2
from coalloc.v1 import workflows_pb2 as _workflows_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReservationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESERVATION_STATE_UNSPECIFIED: _ClassVar[ReservationState]
    RESERVATION_STATE_CHECKING: _ClassVar[ReservationState]
    RESERVATION_STATE_COMMITTING: _ClassVar[ReservationState]
    RESERVATION_STATE_CONFIRMED: _ClassVar[ReservationState]
    RESERVATION_STATE_ABORTING: _ClassVar[ReservationState]
    RESERVATION_STATE_FAILED: _ClassVar[ReservationState]
    RESERVATION_STATE_TERMINATING: _ClassVar[ReservationState]
    RESERVATION_STATE_TERMINATED: _ClassVar[ReservationState]
    RESERVATION_STATE_PASSED_END_TIME: _ClassVar[ReservationState]
    RESERVATION_STATE_HELD: _ClassVar[ReservationState]
    RESERVATION_STATE_ACTIVE: _ClassVar[ReservationState]

class ChangeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHANGE_STATE_UNSPECIFIED: _ClassVar[ChangeState]
    CHANGE_STATE_CHECKING: _ClassVar[ChangeState]
    CHANGE_STATE_COMMITTING: _ClassVar[ChangeState]
    CHANGE_STATE_DONE: _ClassVar[ChangeState]
    CHANGE_STATE_REFUSED: _ClassVar[ChangeState]

class DifferenceKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIFFERENCE_KIND_UNSPECIFIED: _ClassVar[DifferenceKind]
    DIFFERENCE_KIND_MISSING_THERE: _ClassVar[DifferenceKind]
    DIFFERENCE_KIND_UNKNOWN_HERE: _ClassVar[DifferenceKind]
    DIFFERENCE_KIND_OTHER_CONTENT: _ClassVar[DifferenceKind]
    DIFFERENCE_KIND_UNUSABLE: _ClassVar[DifferenceKind]

class RepairKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPAIR_KIND_UNSPECIFIED: _ClassVar[RepairKind]
    REPAIR_KIND_BOOK_AGAIN: _ClassVar[RepairKind]
    REPAIR_KIND_RELEASE: _ClassVar[RepairKind]
    REPAIR_KIND_RELOCATE: _ClassVar[RepairKind]
RESERVATION_STATE_UNSPECIFIED: ReservationState
RESERVATION_STATE_CHECKING: ReservationState
RESERVATION_STATE_COMMITTING: ReservationState
RESERVATION_STATE_CONFIRMED: ReservationState
RESERVATION_STATE_ABORTING: ReservationState
RESERVATION_STATE_FAILED: ReservationState
RESERVATION_STATE_TERMINATING: ReservationState
RESERVATION_STATE_TERMINATED: ReservationState
RESERVATION_STATE_PASSED_END_TIME: ReservationState
RESERVATION_STATE_HELD: ReservationState
RESERVATION_STATE_ACTIVE: ReservationState
CHANGE_STATE_UNSPECIFIED: ChangeState
CHANGE_STATE_CHECKING: ChangeState
CHANGE_STATE_COMMITTING: ChangeState
CHANGE_STATE_DONE: ChangeState
CHANGE_STATE_REFUSED: ChangeState
DIFFERENCE_KIND_UNSPECIFIED: DifferenceKind
DIFFERENCE_KIND_MISSING_THERE: DifferenceKind
DIFFERENCE_KIND_UNKNOWN_HERE: DifferenceKind
DIFFERENCE_KIND_OTHER_CONTENT: DifferenceKind
DIFFERENCE_KIND_UNUSABLE: DifferenceKind
REPAIR_KIND_UNSPECIFIED: RepairKind
REPAIR_KIND_BOOK_AGAIN: RepairKind
REPAIR_KIND_RELEASE: RepairKind
REPAIR_KIND_RELOCATE: RepairKind

class GetWorkflowResponse(_message.Message):
    __slots__ = ("reservation", "workflow", "next_page_token")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    workflow: _workflows_pb2.WorkflowReceipt
    next_page_token: str
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., workflow: _Optional[_Union[_workflows_pb2.WorkflowReceipt, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("request", "options")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    request: _types_pb2.CoAllocationRequest
    options: _types_pb2.PlanOptions
    def __init__(self, request: _Optional[_Union[_types_pb2.CoAllocationRequest, _Mapping]] = ..., options: _Optional[_Union[_types_pb2.PlanOptions, _Mapping]] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("plans", "refused", "unreachable", "alternatives")
    PLANS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[_types_pb2.Plan]
    refused: _containers.RepeatedCompositeFieldContainer[_types_pb2.RefusedFrame]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    alternatives: _types_pb2.Alternatives
    def __init__(self, plans: _Optional[_Iterable[_Union[_types_pb2.Plan, _Mapping]]] = ..., refused: _Optional[_Iterable[_Union[_types_pb2.RefusedFrame, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ..., alternatives: _Optional[_Union[_types_pb2.Alternatives, _Mapping]] = ...) -> None: ...

class ReserveRequest(_message.Message):
    __slots__ = ("request_id", "request", "options", "plan_digest")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PLAN_DIGEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: _types_pb2.CoAllocationRequest
    options: _types_pb2.PlanOptions
    plan_digest: str
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[_types_pb2.CoAllocationRequest, _Mapping]] = ..., options: _Optional[_Union[_types_pb2.PlanOptions, _Mapping]] = ..., plan_digest: _Optional[str] = ...) -> None: ...

class ReserveResponse(_message.Message):
    __slots__ = ("reservation", "fresh_plans")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    FRESH_PLANS_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    fresh_plans: _containers.RepeatedCompositeFieldContainer[_types_pb2.Plan]
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., fresh_plans: _Optional[_Iterable[_Union[_types_pb2.Plan, _Mapping]]] = ...) -> None: ...

class ModifyRequest(_message.Message):
    __slots__ = ("id", "change_id", "request", "options", "may_move")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MAY_MOVE_FIELD_NUMBER: _ClassVar[int]
    id: str
    change_id: str
    request: _types_pb2.CoAllocationRequest
    options: _types_pb2.PlanOptions
    may_move: bool
    def __init__(self, id: _Optional[str] = ..., change_id: _Optional[str] = ..., request: _Optional[_Union[_types_pb2.CoAllocationRequest, _Mapping]] = ..., options: _Optional[_Union[_types_pb2.PlanOptions, _Mapping]] = ..., may_move: bool = ...) -> None: ...

class ModifyResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class ProvisionRequest(_message.Message):
    __slots__ = ("id", "change_id", "user")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    id: str
    change_id: str
    user: str
    def __init__(self, id: _Optional[str] = ..., change_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ProvisionResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class DeprovisionRequest(_message.Message):
    __slots__ = ("id", "change_id", "user")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    id: str
    change_id: str
    user: str
    def __init__(self, id: _Optional[str] = ..., change_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class DeprovisionResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("change_id", "state", "plan", "refusal", "attempts")
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    change_id: str
    state: ChangeState
    plan: _types_pb2.Plan
    refusal: _types_pb2.Refusal
    attempts: int
    def __init__(self, change_id: _Optional[str] = ..., state: _Optional[_Union[ChangeState, str]] = ..., plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., attempts: _Optional[int] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("id", "request_id", "user", "state", "plan", "refusal", "definite", "attempts", "transaction", "created", "unreachable", "attempt_refusals", "request", "version", "change", "expires_in", "alternatives", "options", "given_up", "servers", "allocation", "workflow", "equipment_trouble", "manual_provision", "awaited")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DEFINITE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_REFUSALS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    EQUIPMENT_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    MANUAL_PROVISION_FIELD_NUMBER: _ClassVar[int]
    AWAITED_FIELD_NUMBER: _ClassVar[int]
    id: str
    request_id: str
    user: str
    state: ReservationState
    plan: _types_pb2.Plan
    refusal: _types_pb2.Refusal
    definite: bool
    attempts: int
    transaction: str
    created: _timestamp_pb2.Timestamp
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    attempt_refusals: _containers.RepeatedCompositeFieldContainer[_types_pb2.Refusal]
    request: _types_pb2.CoAllocationRequest
    version: int
    change: Change
    expires_in: _duration_pb2.Duration
    alternatives: _types_pb2.Alternatives
    options: _types_pb2.PlanOptions
    given_up: _containers.RepeatedCompositeFieldContainer[GivenUp]
    servers: _containers.RepeatedCompositeFieldContainer[_resource_manager_pb2.GrantedServers]
    allocation: AllocateRequest
    workflow: _workflows_pb2.WorkflowSummary
    equipment_trouble: _containers.RepeatedCompositeFieldContainer[EquipmentTrouble]
    manual_provision: bool
    awaited: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., request_id: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[_Union[ReservationState, str]] = ..., plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., definite: bool = ..., attempts: _Optional[int] = ..., transaction: _Optional[str] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., unreachable: _Optional[_Iterable[str]] = ..., attempt_refusals: _Optional[_Iterable[_Union[_types_pb2.Refusal, _Mapping]]] = ..., request: _Optional[_Union[_types_pb2.CoAllocationRequest, _Mapping]] = ..., version: _Optional[int] = ..., change: _Optional[_Union[Change, _Mapping]] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., alternatives: _Optional[_Union[_types_pb2.Alternatives, _Mapping]] = ..., options: _Optional[_Union[_types_pb2.PlanOptions, _Mapping]] = ..., given_up: _Optional[_Iterable[_Union[GivenUp, _Mapping]]] = ..., servers: _Optional[_Iterable[_Union[_resource_manager_pb2.GrantedServers, _Mapping]]] = ..., allocation: _Optional[_Union[AllocateRequest, _Mapping]] = ..., workflow: _Optional[_Union[_workflows_pb2.WorkflowSummary, _Mapping]] = ..., equipment_trouble: _Optional[_Iterable[_Union[EquipmentTrouble, _Mapping]]] = ..., manual_provision: bool = ..., awaited: _Optional[_Iterable[str]] = ...) -> None: ...

class EquipmentTrouble(_message.Message):
    __slots__ = ("resource_manager", "trouble")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    trouble: str
    def __init__(self, resource_manager: _Optional[str] = ..., trouble: _Optional[str] = ...) -> None: ...

class GetQuotaRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class GetQuotaResponse(_message.Message):
    __slots__ = ("user", "reservations", "reservations_max", "hours", "calls_per_second_max")
    USER_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_MAX_FIELD_NUMBER: _ClassVar[int]
    HOURS_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_SECOND_MAX_FIELD_NUMBER: _ClassVar[int]
    user: str
    reservations: int
    reservations_max: int
    hours: _containers.RepeatedCompositeFieldContainer[HoursQuota]
    calls_per_second_max: int
    def __init__(self, user: _Optional[str] = ..., reservations: _Optional[int] = ..., reservations_max: _Optional[int] = ..., hours: _Optional[_Iterable[_Union[HoursQuota, _Mapping]]] = ..., calls_per_second_max: _Optional[int] = ...) -> None: ...

class MakeCalendarAddressRequest(_message.Message):
    __slots__ = ("user", "valid_for")
    USER_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    user: str
    valid_for: _duration_pb2.Duration
    def __init__(self, user: _Optional[str] = ..., valid_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class MakeCalendarAddressResponse(_message.Message):
    __slots__ = ("secret", "path", "expires")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    secret: str
    path: str
    expires: _timestamp_pb2.Timestamp
    def __init__(self, secret: _Optional[str] = ..., path: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetCalendarAddressRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class GetCalendarAddressResponse(_message.Message):
    __slots__ = ("user", "made", "expires")
    USER_FIELD_NUMBER: _ClassVar[int]
    MADE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    user: str
    made: _timestamp_pb2.Timestamp
    expires: _timestamp_pb2.Timestamp
    def __init__(self, user: _Optional[str] = ..., made: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RevokeCalendarAddressRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class RevokeCalendarAddressResponse(_message.Message):
    __slots__ = ("revoked",)
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    revoked: bool
    def __init__(self, revoked: bool = ...) -> None: ...

class ReadCalendarRequest(_message.Message):
    __slots__ = ("secret", "page_token")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    secret: str
    page_token: str
    def __init__(self, secret: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class ReadCalendarResponse(_message.Message):
    __slots__ = ("reservations", "next_page_token")
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    next_page_token: str
    def __init__(self, reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class HoursQuota(_message.Message):
    __slots__ = ("kind", "unit", "reserved_thousandths", "max_thousandths")
    KIND_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    RESERVED_THOUSANDTHS_FIELD_NUMBER: _ClassVar[int]
    MAX_THOUSANDTHS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    unit: str
    reserved_thousandths: int
    max_thousandths: int
    def __init__(self, kind: _Optional[str] = ..., unit: _Optional[str] = ..., reserved_thousandths: _Optional[int] = ..., max_thousandths: _Optional[int] = ...) -> None: ...

class SearchServersRequest(_message.Message):
    __slots__ = ("window", "at_least", "properties", "site", "limit")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    window: _types_pb2.Window
    at_least: int
    properties: _containers.RepeatedScalarFieldContainer[str]
    site: str
    limit: int
    def __init__(self, window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., at_least: _Optional[int] = ..., properties: _Optional[_Iterable[str]] = ..., site: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class SearchServersResponse(_message.Message):
    __slots__ = ("servers", "more", "silent")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[_resource_manager_pb2.IdleServer]
    more: bool
    silent: _containers.RepeatedCompositeFieldContainer[SilentResourceManager]
    def __init__(self, servers: _Optional[_Iterable[_Union[_resource_manager_pb2.IdleServer, _Mapping]]] = ..., more: bool = ..., silent: _Optional[_Iterable[_Union[SilentResourceManager, _Mapping]]] = ...) -> None: ...

class SilentResourceManager(_message.Message):
    __slots__ = ("name", "problem")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    name: str
    problem: str
    def __init__(self, name: _Optional[str] = ..., problem: _Optional[str] = ...) -> None: ...

class AllocateRequest(_message.Message):
    __slots__ = ("request_id", "user", "servers", "cpus", "picked", "site", "duration", "earliest_start", "latest_start", "step", "attempts", "choice")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    PICKED_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_START_FIELD_NUMBER: _ClassVar[int]
    LATEST_START_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    user: str
    servers: int
    cpus: int
    picked: _containers.RepeatedScalarFieldContainer[str]
    site: str
    duration: _duration_pb2.Duration
    earliest_start: _timestamp_pb2.Timestamp
    latest_start: _timestamp_pb2.Timestamp
    step: _duration_pb2.Duration
    attempts: int
    choice: _resource_manager_pb2.ServerChoice
    def __init__(self, request_id: _Optional[str] = ..., user: _Optional[str] = ..., servers: _Optional[int] = ..., cpus: _Optional[int] = ..., picked: _Optional[_Iterable[str]] = ..., site: _Optional[str] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., earliest_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., latest_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., step: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., attempts: _Optional[int] = ..., choice: _Optional[_Union[_resource_manager_pb2.ServerChoice, str]] = ...) -> None: ...

class AllocateResponse(_message.Message):
    __slots__ = ("reservation", "starts_tried")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    STARTS_TRIED_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    starts_tried: int
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., starts_tried: _Optional[int] = ...) -> None: ...

class GivenUp(_message.Message):
    __slots__ = ("resource_manager", "transaction", "by", "why", "time", "booked_until", "ended")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BOOKED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    transaction: str
    by: str
    why: str
    time: _timestamp_pb2.Timestamp
    booked_until: _timestamp_pb2.Timestamp
    ended: _timestamp_pb2.Timestamp
    def __init__(self, resource_manager: _Optional[str] = ..., transaction: _Optional[str] = ..., by: _Optional[str] = ..., why: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., booked_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., ended: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("resume_token", "id", "user")
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    id: str
    user: str
    def __init__(self, resume_token: _Optional[str] = ..., id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("event", "progress")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    event: ReservationEvent
    progress: _resource_manager_pb2.WatchProgress
    def __init__(self, event: _Optional[_Union[ReservationEvent, _Mapping]] = ..., progress: _Optional[_Union[_resource_manager_pb2.WatchProgress, _Mapping]] = ...) -> None: ...

class ReservationEvent(_message.Message):
    __slots__ = ("sequence", "resume_token", "time", "reservation", "request_id", "user", "state", "version", "what", "transaction", "refusal", "expires_in", "equipment_trouble")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    EQUIPMENT_TROUBLE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    resume_token: str
    time: _timestamp_pb2.Timestamp
    reservation: str
    request_id: str
    user: str
    state: ReservationState
    version: int
    what: str
    transaction: str
    refusal: _types_pb2.Refusal
    expires_in: _duration_pb2.Duration
    equipment_trouble: _containers.RepeatedCompositeFieldContainer[EquipmentTrouble]
    def __init__(self, sequence: _Optional[int] = ..., resume_token: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., reservation: _Optional[str] = ..., request_id: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[_Union[ReservationState, str]] = ..., version: _Optional[int] = ..., what: _Optional[str] = ..., transaction: _Optional[str] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., equipment_trouble: _Optional[_Iterable[_Union[EquipmentTrouble, _Mapping]]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class GetDataPlaneRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetDataPlaneResponse(_message.Message):
    __slots__ = ("data_plane", "silent")
    DATA_PLANE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    data_plane: _containers.RepeatedCompositeFieldContainer[_resource_manager_pb2.DataPlane]
    silent: _containers.RepeatedCompositeFieldContainer[SilentResourceManager]
    def __init__(self, data_plane: _Optional[_Iterable[_Union[_resource_manager_pb2.DataPlane, _Mapping]]] = ..., silent: _Optional[_Iterable[_Union[SilentResourceManager, _Mapping]]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("user", "states", "page_size", "page_token", "series")
    USER_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    user: str
    states: _containers.RepeatedScalarFieldContainer[ReservationState]
    page_size: int
    page_token: str
    series: str
    def __init__(self, user: _Optional[str] = ..., states: _Optional[_Iterable[_Union[ReservationState, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., series: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("reservations", "next_page_token")
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[Reservation]
    next_page_token: str
    def __init__(self, reservations: _Optional[_Iterable[_Union[Reservation, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReleaseReservationRequest(_message.Message):
    __slots__ = ("id", "user")
    ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    id: str
    user: str
    def __init__(self, id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ReleaseReservationResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class ReleaseRestRequest(_message.Message):
    __slots__ = ("id", "change_id", "user")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    id: str
    change_id: str
    user: str
    def __init__(self, id: _Optional[str] = ..., change_id: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ReleaseRestResponse(_message.Message):
    __slots__ = ("reservation",)
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ...) -> None: ...

class DescribeFederationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeFederationResponse(_message.Message):
    __slots__ = ("coordinator", "resource_managers", "exchange_points", "ledger_id", "not_configured", "version")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_POINTS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    NOT_CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    resource_managers: _containers.RepeatedCompositeFieldContainer[ResourceManagerStatus]
    exchange_points: _containers.RepeatedScalarFieldContainer[str]
    ledger_id: str
    not_configured: _containers.RepeatedCompositeFieldContainer[OwedElsewhere]
    version: _types_pb2.Version
    def __init__(self, coordinator: _Optional[str] = ..., resource_managers: _Optional[_Iterable[_Union[ResourceManagerStatus, _Mapping]]] = ..., exchange_points: _Optional[_Iterable[str]] = ..., ledger_id: _Optional[str] = ..., not_configured: _Optional[_Iterable[_Union[OwedElsewhere, _Mapping]]] = ..., version: _Optional[_Union[_types_pb2.Version, _Mapping]] = ...) -> None: ...

class OwedElsewhere(_message.Message):
    __slots__ = ("name", "owed", "releases_owed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWED_FIELD_NUMBER: _ClassVar[int]
    RELEASES_OWED_FIELD_NUMBER: _ClassVar[int]
    name: str
    owed: int
    releases_owed: int
    def __init__(self, name: _Optional[str] = ..., owed: _Optional[int] = ..., releases_owed: _Optional[int] = ...) -> None: ...

class ResourceManagerStatus(_message.Message):
    __slots__ = ("name", "address", "reachable", "problem", "description", "denies", "differences", "owed", "releases_owed", "foreign_names", "foreign_names_total", "not_used", "certificate", "described")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REACHABLE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DENIES_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    OWED_FIELD_NUMBER: _ClassVar[int]
    RELEASES_OWED_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_NAMES_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_NAMES_TOTAL_FIELD_NUMBER: _ClassVar[int]
    NOT_USED_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    reachable: bool
    problem: str
    description: _resource_manager_pb2.DescribeResponse
    denies: bool
    differences: int
    owed: int
    releases_owed: int
    foreign_names: _containers.RepeatedCompositeFieldContainer[ForeignName]
    foreign_names_total: int
    not_used: str
    certificate: CertificateLife
    described: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ..., reachable: bool = ..., problem: _Optional[str] = ..., description: _Optional[_Union[_resource_manager_pb2.DescribeResponse, _Mapping]] = ..., denies: bool = ..., differences: _Optional[int] = ..., owed: _Optional[int] = ..., releases_owed: _Optional[int] = ..., foreign_names: _Optional[_Iterable[_Union[ForeignName, _Mapping]]] = ..., foreign_names_total: _Optional[int] = ..., not_used: _Optional[str] = ..., certificate: _Optional[_Union[CertificateLife, _Mapping]] = ..., described: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CertificateLife(_message.Message):
    __slots__ = ("not_before", "not_after")
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    NOT_AFTER_FIELD_NUMBER: _ClassVar[int]
    not_before: _timestamp_pb2.Timestamp
    not_after: _timestamp_pb2.Timestamp
    def __init__(self, not_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., not_after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ForeignName(_message.Message):
    __slots__ = ("site", "path", "owner")
    SITE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    site: str
    path: str
    owner: str
    def __init__(self, site: _Optional[str] = ..., path: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ListDifferencesRequest(_message.Message):
    __slots__ = ("resource_manager", "fresh")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    fresh: bool
    def __init__(self, resource_manager: _Optional[str] = ..., fresh: bool = ...) -> None: ...

class ListDifferencesResponse(_message.Message):
    __slots__ = ("resource_managers",)
    RESOURCE_MANAGERS_FIELD_NUMBER: _ClassVar[int]
    resource_managers: _containers.RepeatedCompositeFieldContainer[ComparedBookings]
    def __init__(self, resource_managers: _Optional[_Iterable[_Union[ComparedBookings, _Mapping]]] = ...) -> None: ...

class ComparedBookings(_message.Message):
    __slots__ = ("resource_manager", "time", "problem", "differences", "more")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    time: _timestamp_pb2.Timestamp
    problem: str
    differences: _containers.RepeatedCompositeFieldContainer[BookingDifference]
    more: int
    def __init__(self, resource_manager: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., problem: _Optional[str] = ..., differences: _Optional[_Iterable[_Union[BookingDifference, _Mapping]]] = ..., more: _Optional[int] = ...) -> None: ...

class BookingDifference(_message.Message):
    __slots__ = ("transaction", "kind", "reservation", "user", "ends", "repair", "why")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    kind: DifferenceKind
    reservation: str
    user: str
    ends: _timestamp_pb2.Timestamp
    repair: RepairKind
    why: str
    def __init__(self, transaction: _Optional[str] = ..., kind: _Optional[_Union[DifferenceKind, str]] = ..., reservation: _Optional[str] = ..., user: _Optional[str] = ..., ends: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., repair: _Optional[_Union[RepairKind, str]] = ..., why: _Optional[str] = ...) -> None: ...

class RepairRequest(_message.Message):
    __slots__ = ("repair_id", "resource_manager", "transaction", "by", "why")
    REPAIR_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    repair_id: str
    resource_manager: str
    transaction: str
    by: str
    why: str
    def __init__(self, repair_id: _Optional[str] = ..., resource_manager: _Optional[str] = ..., transaction: _Optional[str] = ..., by: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RepairResponse(_message.Message):
    __slots__ = ("reservation", "released")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    released: bool
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., released: bool = ...) -> None: ...

class GiveUpRequest(_message.Message):
    __slots__ = ("resource_manager", "id", "all", "by", "why")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    id: str
    all: bool
    by: str
    why: str
    def __init__(self, resource_manager: _Optional[str] = ..., id: _Optional[str] = ..., all: bool = ..., by: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class GiveUpResponse(_message.Message):
    __slots__ = ("reservation", "given_up", "more", "wanted")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    reservation: Reservation
    given_up: _containers.RepeatedScalarFieldContainer[str]
    more: int
    wanted: int
    def __init__(self, reservation: _Optional[_Union[Reservation, _Mapping]] = ..., given_up: _Optional[_Iterable[str]] = ..., more: _Optional[int] = ..., wanted: _Optional[int] = ...) -> None: ...
