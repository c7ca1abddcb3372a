from coalloc.v1 import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerChoice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_CHOICE_UNSPECIFIED: _ClassVar[ServerChoice]
    SERVER_CHOICE_PAPER: _ClassVar[ServerChoice]
    SERVER_CHOICE_FIRST: _ClassVar[ServerChoice]
    SERVER_CHOICE_BEST_FIT: _ClassVar[ServerChoice]
    SERVER_CHOICE_WORST_FIT: _ClassVar[ServerChoice]

class BookingState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOOKING_STATE_UNSPECIFIED: _ClassVar[BookingState]
    BOOKING_STATE_HELD: _ClassVar[BookingState]
    BOOKING_STATE_BOOKED: _ClassVar[BookingState]
    BOOKING_STATE_REFUSED: _ClassVar[BookingState]
    BOOKING_STATE_ABORTED: _ClassVar[BookingState]
    BOOKING_STATE_EXPIRED: _ClassVar[BookingState]
    BOOKING_STATE_RELEASED: _ClassVar[BookingState]
    BOOKING_STATE_REPLACED: _ClassVar[BookingState]

class ProvisionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVISION_STATE_UNSPECIFIED: _ClassVar[ProvisionState]
    PROVISION_STATE_RELEASED: _ClassVar[ProvisionState]
    PROVISION_STATE_PROVISIONING: _ClassVar[ProvisionState]
    PROVISION_STATE_PROVISIONED: _ClassVar[ProvisionState]
    PROVISION_STATE_RELEASING: _ClassVar[ProvisionState]

class Decision(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_UNSPECIFIED: _ClassVar[Decision]
    DECISION_COMMIT: _ClassVar[Decision]
    DECISION_ABORT: _ClassVar[Decision]

class UpdateStrategy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UPDATE_STRATEGY_UNSPECIFIED: _ClassVar[UpdateStrategy]
    UPDATE_STRATEGY_EVERY_CHANGE: _ClassVar[UpdateStrategy]
    UPDATE_STRATEGY_PERIODIC: _ClassVar[UpdateStrategy]
    UPDATE_STRATEGY_THRESHOLD: _ClassVar[UpdateStrategy]

class ProfileUpdateKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROFILE_UPDATE_KIND_UNSPECIFIED: _ClassVar[ProfileUpdateKind]
    PROFILE_UPDATE_KIND_SNAPSHOT: _ClassVar[ProfileUpdateKind]
    PROFILE_UPDATE_KIND_DELTA: _ClassVar[ProfileUpdateKind]
    PROFILE_UPDATE_KIND_FACTS: _ClassVar[ProfileUpdateKind]
SERVER_CHOICE_UNSPECIFIED: ServerChoice
SERVER_CHOICE_PAPER: ServerChoice
SERVER_CHOICE_FIRST: ServerChoice
SERVER_CHOICE_BEST_FIT: ServerChoice
SERVER_CHOICE_WORST_FIT: ServerChoice
BOOKING_STATE_UNSPECIFIED: BookingState
BOOKING_STATE_HELD: BookingState
BOOKING_STATE_BOOKED: BookingState
BOOKING_STATE_REFUSED: BookingState
BOOKING_STATE_ABORTED: BookingState
BOOKING_STATE_EXPIRED: BookingState
BOOKING_STATE_RELEASED: BookingState
BOOKING_STATE_REPLACED: BookingState
PROVISION_STATE_UNSPECIFIED: ProvisionState
PROVISION_STATE_RELEASED: ProvisionState
PROVISION_STATE_PROVISIONING: ProvisionState
PROVISION_STATE_PROVISIONED: ProvisionState
PROVISION_STATE_RELEASING: ProvisionState
DECISION_UNSPECIFIED: Decision
DECISION_COMMIT: Decision
DECISION_ABORT: Decision
UPDATE_STRATEGY_UNSPECIFIED: UpdateStrategy
UPDATE_STRATEGY_EVERY_CHANGE: UpdateStrategy
UPDATE_STRATEGY_PERIODIC: UpdateStrategy
UPDATE_STRATEGY_THRESHOLD: UpdateStrategy
PROFILE_UPDATE_KIND_UNSPECIFIED: ProfileUpdateKind
PROFILE_UPDATE_KIND_SNAPSHOT: ProfileUpdateKind
PROFILE_UPDATE_KIND_DELTA: ProfileUpdateKind
PROFILE_UPDATE_KIND_FACTS: ProfileUpdateKind

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("name", "domain", "ledger_id", "sites", "paths", "horizon", "coordinators_below", "coordinators", "started", "version", "has_equipment", "equipment")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    COORDINATORS_BELOW_FIELD_NUMBER: _ClassVar[int]
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HAS_EQUIPMENT_FIELD_NUMBER: _ClassVar[int]
    EQUIPMENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    domain: str
    ledger_id: str
    sites: _containers.RepeatedCompositeFieldContainer[Site]
    paths: _containers.RepeatedCompositeFieldContainer[Path]
    horizon: _duration_pb2.Duration
    coordinators_below: _containers.RepeatedScalarFieldContainer[str]
    coordinators: _containers.RepeatedScalarFieldContainer[str]
    started: _timestamp_pb2.Timestamp
    version: _types_pb2.Version
    has_equipment: bool
    equipment: EquipmentReport
    def __init__(self, name: _Optional[str] = ..., domain: _Optional[str] = ..., ledger_id: _Optional[str] = ..., sites: _Optional[_Iterable[_Union[Site, _Mapping]]] = ..., paths: _Optional[_Iterable[_Union[Path, _Mapping]]] = ..., horizon: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., coordinators_below: _Optional[_Iterable[str]] = ..., coordinators: _Optional[_Iterable[str]] = ..., started: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., version: _Optional[_Union[_types_pb2.Version, _Mapping]] = ..., has_equipment: bool = ..., equipment: _Optional[_Union[EquipmentReport, _Mapping]] = ...) -> None: ...

class EquipmentReport(_message.Message):
    __slots__ = ("trouble", "drift", "orphans", "intruders", "unusable")
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    DRIFT_FIELD_NUMBER: _ClassVar[int]
    ORPHANS_FIELD_NUMBER: _ClassVar[int]
    INTRUDERS_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    trouble: str
    drift: _containers.RepeatedScalarFieldContainer[str]
    orphans: _containers.RepeatedScalarFieldContainer[str]
    intruders: _containers.RepeatedScalarFieldContainer[str]
    unusable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, trouble: _Optional[str] = ..., drift: _Optional[_Iterable[str]] = ..., orphans: _Optional[_Iterable[str]] = ..., intruders: _Optional[_Iterable[str]] = ..., unusable: _Optional[_Iterable[str]] = ...) -> None: ...

class Site(_message.Message):
    __slots__ = ("name", "cpus", "unit_value", "quality", "price", "mips", "others", "servers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    UNIT_VALUE_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    MIPS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpus: int
    unit_value: int
    quality: int
    price: _types_pb2.PriceSchedule
    mips: int
    others: _containers.RepeatedCompositeFieldContainer[SiteResource]
    servers: SiteServers
    def __init__(self, name: _Optional[str] = ..., cpus: _Optional[int] = ..., unit_value: _Optional[int] = ..., quality: _Optional[int] = ..., price: _Optional[_Union[_types_pb2.PriceSchedule, _Mapping]] = ..., mips: _Optional[int] = ..., others: _Optional[_Iterable[_Union[SiteResource, _Mapping]]] = ..., servers: _Optional[_Union[SiteServers, _Mapping]] = ...) -> None: ...

class SiteServers(_message.Message):
    __slots__ = ("cpus_each", "groups")
    CPUS_EACH_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    cpus_each: int
    groups: _containers.RepeatedCompositeFieldContainer[ServerGroup]
    def __init__(self, cpus_each: _Optional[int] = ..., groups: _Optional[_Iterable[_Union[ServerGroup, _Mapping]]] = ...) -> None: ...

class ServerGroup(_message.Message):
    __slots__ = ("count", "names", "properties")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    count: int
    names: _containers.RepeatedScalarFieldContainer[str]
    properties: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, count: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ..., properties: _Optional[_Iterable[str]] = ...) -> None: ...

class SiteResource(_message.Message):
    __slots__ = ("kind", "capacity", "unit_value")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    UNIT_VALUE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    capacity: int
    unit_value: int
    def __init__(self, kind: _Optional[str] = ..., capacity: _Optional[int] = ..., unit_value: _Optional[int] = ...) -> None: ...

class Path(_message.Message):
    __slots__ = ("name", "a", "b", "capacity_bps", "unit_value", "latency", "full_duplex", "quality", "price")
    NAME_FIELD_NUMBER: _ClassVar[int]
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BPS_FIELD_NUMBER: _ClassVar[int]
    UNIT_VALUE_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    FULL_DUPLEX_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    name: str
    a: str
    b: str
    capacity_bps: int
    unit_value: int
    latency: _duration_pb2.Duration
    full_duplex: bool
    quality: int
    price: _types_pb2.PriceSchedule
    def __init__(self, name: _Optional[str] = ..., a: _Optional[str] = ..., b: _Optional[str] = ..., capacity_bps: _Optional[int] = ..., unit_value: _Optional[int] = ..., latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., full_duplex: bool = ..., quality: _Optional[int] = ..., price: _Optional[_Union[_types_pb2.PriceSchedule, _Mapping]] = ...) -> None: ...

class QueryAvailabilityRequest(_message.Message):
    __slots__ = ("frames", "user", "replaces", "avoided")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[_types_pb2.Window]
    user: str
    replaces: str
    avoided: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, frames: _Optional[_Iterable[_Union[_types_pb2.Window, _Mapping]]] = ..., user: _Optional[str] = ..., replaces: _Optional[str] = ..., avoided: _Optional[_Iterable[str]] = ...) -> None: ...

class QueryAvailabilityResponse(_message.Message):
    __slots__ = ("frames",)
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    frames: _containers.RepeatedCompositeFieldContainer[FrameAvailability]
    def __init__(self, frames: _Optional[_Iterable[_Union[FrameAvailability, _Mapping]]] = ...) -> None: ...

class FrameAvailability(_message.Message):
    __slots__ = ("free", "next_change")
    FREE_FIELD_NUMBER: _ClassVar[int]
    NEXT_CHANGE_FIELD_NUMBER: _ClassVar[int]
    free: _containers.RepeatedScalarFieldContainer[int]
    next_change: _timestamp_pb2.Timestamp
    def __init__(self, free: _Optional[_Iterable[int]] = ..., next_change: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class HoldRequest(_message.Message):
    __slots__ = ("transaction", "coordinator", "user", "segments", "hold_for", "resource_manager", "replaces", "one_way", "keeps_old", "servers", "oldest_open", "coordinator_epoch", "manual_provision")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_FIELD_NUMBER: _ClassVar[int]
    KEEPS_OLD_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    OLDEST_OPEN_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    MANUAL_PROVISION_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    user: str
    segments: _containers.RepeatedCompositeFieldContainer[_types_pb2.Segment]
    hold_for: _duration_pb2.Duration
    resource_manager: str
    replaces: str
    one_way: bool
    keeps_old: bool
    servers: ServerWish
    oldest_open: int
    coordinator_epoch: int
    manual_provision: bool
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., user: _Optional[str] = ..., segments: _Optional[_Iterable[_Union[_types_pb2.Segment, _Mapping]]] = ..., hold_for: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., resource_manager: _Optional[str] = ..., replaces: _Optional[str] = ..., one_way: bool = ..., keeps_old: bool = ..., servers: _Optional[_Union[ServerWish, _Mapping]] = ..., oldest_open: _Optional[int] = ..., coordinator_epoch: _Optional[int] = ..., manual_provision: bool = ...) -> None: ...

class ServerWish(_message.Message):
    __slots__ = ("choice", "picked", "avoided")
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    PICKED_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    choice: ServerChoice
    picked: _containers.RepeatedScalarFieldContainer[str]
    avoided: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, choice: _Optional[_Union[ServerChoice, str]] = ..., picked: _Optional[_Iterable[str]] = ..., avoided: _Optional[_Iterable[str]] = ...) -> None: ...

class GrantedServers(_message.Message):
    __slots__ = ("site", "window", "servers", "resource_manager")
    SITE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    site: str
    window: _types_pb2.Window
    servers: _containers.RepeatedScalarFieldContainer[str]
    resource_manager: str
    def __init__(self, site: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., servers: _Optional[_Iterable[str]] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class HoldResponse(_message.Message):
    __slots__ = ("held", "refused", "fresh")
    HELD_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    held: Held
    refused: _types_pb2.Refusal
    fresh: ProfileUpdate
    def __init__(self, held: _Optional[_Union[Held, _Mapping]] = ..., refused: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., fresh: _Optional[_Union[ProfileUpdate, _Mapping]] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("expires_in", "servers")
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    expires_in: _duration_pb2.Duration
    servers: _containers.RepeatedCompositeFieldContainer[GrantedServers]
    def __init__(self, expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., servers: _Optional[_Iterable[_Union[GrantedServers, _Mapping]]] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("transaction", "coordinator", "resource_manager", "coordinator_epoch")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    resource_manager: str
    coordinator_epoch: int
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _types_pb2.Refusal
    def __init__(self, refused: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ...) -> None: ...

class AbortRequest(_message.Message):
    __slots__ = ("transaction", "coordinator", "resource_manager", "coordinator_epoch")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    resource_manager: str
    coordinator_epoch: int
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class AbortResponse(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _types_pb2.Refusal
    def __init__(self, refused: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("transaction", "coordinator", "resource_manager", "coordinator_epoch")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_EPOCH_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    resource_manager: str
    coordinator_epoch: int
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ..., coordinator_epoch: _Optional[int] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("refused",)
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    refused: _types_pb2.Refusal
    def __init__(self, refused: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ...) -> None: ...

class GetBookingRequest(_message.Message):
    __slots__ = ("transaction", "coordinator", "resource_manager")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    resource_manager: str
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class GetBookingResponse(_message.Message):
    __slots__ = ("booking",)
    BOOKING_FIELD_NUMBER: _ClassVar[int]
    booking: Booking
    def __init__(self, booking: _Optional[_Union[Booking, _Mapping]] = ...) -> None: ...

class WatchEquipmentRequest(_message.Message):
    __slots__ = ("coordinator", "resource_manager")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    resource_manager: str
    def __init__(self, coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class WatchEquipmentResponse(_message.Message):
    __slots__ = ("data_plane", "complete", "progress")
    DATA_PLANE_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    data_plane: BookingDataPlane
    complete: EquipmentComplete
    progress: WatchProgress
    def __init__(self, data_plane: _Optional[_Union[BookingDataPlane, _Mapping]] = ..., complete: _Optional[_Union[EquipmentComplete, _Mapping]] = ..., progress: _Optional[_Union[WatchProgress, _Mapping]] = ...) -> None: ...

class BookingDataPlane(_message.Message):
    __slots__ = ("transaction", "data_plane")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    DATA_PLANE_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    data_plane: DataPlane
    def __init__(self, transaction: _Optional[str] = ..., data_plane: _Optional[_Union[DataPlane, _Mapping]] = ...) -> None: ...

class EquipmentComplete(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBookingsRequest(_message.Message):
    __slots__ = ("window", "page_size", "page_token", "include_ended")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_ENDED_FIELD_NUMBER: _ClassVar[int]
    window: _types_pb2.Window
    page_size: int
    page_token: str
    include_ended: bool
    def __init__(self, window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., include_ended: bool = ...) -> None: ...

class ListBookingsResponse(_message.Message):
    __slots__ = ("bookings", "next_page_token")
    BOOKINGS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    bookings: _containers.RepeatedCompositeFieldContainer[Booking]
    next_page_token: str
    def __init__(self, bookings: _Optional[_Iterable[_Union[Booking, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Booking(_message.Message):
    __slots__ = ("transaction", "coordinator", "user", "state", "segments", "expires_in", "replaces", "servers", "data_plane")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    REPLACES_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    DATA_PLANE_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    coordinator: str
    user: str
    state: BookingState
    segments: _containers.RepeatedCompositeFieldContainer[_types_pb2.Segment]
    expires_in: _duration_pb2.Duration
    replaces: str
    servers: _containers.RepeatedCompositeFieldContainer[GrantedServers]
    data_plane: _containers.RepeatedCompositeFieldContainer[DataPlane]
    def __init__(self, transaction: _Optional[str] = ..., coordinator: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[_Union[BookingState, str]] = ..., segments: _Optional[_Iterable[_Union[_types_pb2.Segment, _Mapping]]] = ..., expires_in: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., replaces: _Optional[str] = ..., servers: _Optional[_Iterable[_Union[GrantedServers, _Mapping]]] = ..., data_plane: _Optional[_Iterable[_Union[DataPlane, _Mapping]]] = ...) -> None: ...

class DataPlane(_message.Message):
    __slots__ = ("resource", "provision_state", "active", "amount", "version", "version_consistent", "handle", "trouble", "since", "resource_manager", "unusable")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    PROVISION_STATE_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_CONSISTENT_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    UNUSABLE_FIELD_NUMBER: _ClassVar[int]
    resource: str
    provision_state: ProvisionState
    active: bool
    amount: int
    version: str
    version_consistent: bool
    handle: str
    trouble: str
    since: _timestamp_pb2.Timestamp
    resource_manager: str
    unusable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, resource: _Optional[str] = ..., provision_state: _Optional[_Union[ProvisionState, str]] = ..., active: bool = ..., amount: _Optional[int] = ..., version: _Optional[str] = ..., version_consistent: bool = ..., handle: _Optional[str] = ..., trouble: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., resource_manager: _Optional[str] = ..., unusable: _Optional[_Iterable[str]] = ...) -> None: ...

class FindServersRequest(_message.Message):
    __slots__ = ("coordinator", "window", "at_least", "properties", "site", "page_size", "page_token")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    window: _types_pb2.Window
    at_least: int
    properties: _containers.RepeatedScalarFieldContainer[str]
    site: str
    page_size: int
    page_token: str
    def __init__(self, coordinator: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., at_least: _Optional[int] = ..., properties: _Optional[_Iterable[str]] = ..., site: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class FindServersResponse(_message.Message):
    __slots__ = ("servers", "next_page_token")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[IdleServer]
    next_page_token: str
    def __init__(self, servers: _Optional[_Iterable[_Union[IdleServer, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class IdleServer(_message.Message):
    __slots__ = ("name", "site", "cpus", "properties", "idle_since", "idle_until", "resource_manager")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    IDLE_SINCE_FIELD_NUMBER: _ClassVar[int]
    IDLE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    cpus: int
    properties: _containers.RepeatedScalarFieldContainer[str]
    idle_since: _timestamp_pb2.Timestamp
    idle_until: _timestamp_pb2.Timestamp
    resource_manager: str
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., cpus: _Optional[int] = ..., properties: _Optional[_Iterable[str]] = ..., idle_since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., idle_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class CompareBookingsRequest(_message.Message):
    __slots__ = ("coordinator", "resource_manager", "parts")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    resource_manager: str
    parts: _containers.RepeatedCompositeFieldContainer[BookingPart]
    def __init__(self, coordinator: _Optional[str] = ..., resource_manager: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[BookingPart, _Mapping]]] = ..., **kwargs) -> None: ...

class BookingPart(_message.Message):
    __slots__ = ("era", "shard", "count", "digest_high", "digest_low")
    ERA_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_HIGH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_LOW_FIELD_NUMBER: _ClassVar[int]
    era: int
    shard: int
    count: int
    digest_high: int
    digest_low: int
    def __init__(self, era: _Optional[int] = ..., shard: _Optional[int] = ..., count: _Optional[int] = ..., digest_high: _Optional[int] = ..., digest_low: _Optional[int] = ...) -> None: ...

class CompareBookingsResponse(_message.Message):
    __slots__ = ("ledger_id", "parts", "more")
    LEDGER_ID_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ledger_id: str
    parts: _containers.RepeatedCompositeFieldContainer[DifferingPart]
    more: bool
    def __init__(self, ledger_id: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[DifferingPart, _Mapping]]] = ..., more: bool = ...) -> None: ...

class DifferingPart(_message.Message):
    __slots__ = ("era", "shard", "bookings")
    ERA_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    BOOKINGS_FIELD_NUMBER: _ClassVar[int]
    era: int
    shard: int
    bookings: _containers.RepeatedCompositeFieldContainer[BookingDigest]
    def __init__(self, era: _Optional[int] = ..., shard: _Optional[int] = ..., bookings: _Optional[_Iterable[_Union[BookingDigest, _Mapping]]] = ...) -> None: ...

class BookingDigest(_message.Message):
    __slots__ = ("transaction", "digest_high", "digest_low", "ends")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    DIGEST_HIGH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_LOW_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    digest_high: int
    digest_low: int
    ends: _timestamp_pb2.Timestamp
    def __init__(self, transaction: _Optional[str] = ..., digest_high: _Optional[int] = ..., digest_low: _Optional[int] = ..., ends: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WatchBookingsRequest(_message.Message):
    __slots__ = ("resume_token",)
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    def __init__(self, resume_token: _Optional[str] = ...) -> None: ...

class WatchBookingsResponse(_message.Message):
    __slots__ = ("event", "progress")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    event: BookingEvent
    progress: WatchProgress
    def __init__(self, event: _Optional[_Union[BookingEvent, _Mapping]] = ..., progress: _Optional[_Union[WatchProgress, _Mapping]] = ...) -> None: ...

class WatchProgress(_message.Message):
    __slots__ = ("resume_token",)
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    resume_token: str
    def __init__(self, resume_token: _Optional[str] = ...) -> None: ...

class BookingEvent(_message.Message):
    __slots__ = ("sequence", "resume_token", "time", "booking", "cause", "refusal", "data_plane")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BOOKING_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DATA_PLANE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    resume_token: str
    time: _timestamp_pb2.Timestamp
    booking: Booking
    cause: str
    refusal: _types_pb2.Refusal
    data_plane: DataPlane
    def __init__(self, sequence: _Optional[int] = ..., resume_token: _Optional[str] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., booking: _Optional[_Union[Booking, _Mapping]] = ..., cause: _Optional[str] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., data_plane: _Optional[_Union[DataPlane, _Mapping]] = ...) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("transaction", "resource_manager")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    resource_manager: str
    def __init__(self, transaction: _Optional[str] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class ResolveResponse(_message.Message):
    __slots__ = ("decision",)
    DECISION_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    def __init__(self, decision: _Optional[_Union[Decision, str]] = ...) -> None: ...

class WatchProfilesRequest(_message.Message):
    __slots__ = ("coordinator", "epoch", "revision", "policy")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    epoch: int
    revision: int
    policy: UpdatePolicy
    def __init__(self, coordinator: _Optional[str] = ..., epoch: _Optional[int] = ..., revision: _Optional[int] = ..., policy: _Optional[_Union[UpdatePolicy, _Mapping]] = ...) -> None: ...

class UpdatePolicy(_message.Message):
    __slots__ = ("strategy", "period", "threshold_percent", "delay")
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_PERCENT_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    strategy: UpdateStrategy
    period: _duration_pb2.Duration
    threshold_percent: int
    delay: _duration_pb2.Duration
    def __init__(self, strategy: _Optional[_Union[UpdateStrategy, str]] = ..., period: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., threshold_percent: _Optional[int] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WatchProfilesResponse(_message.Message):
    __slots__ = ("update",)
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    update: ProfileUpdate
    def __init__(self, update: _Optional[_Union[ProfileUpdate, _Mapping]] = ...) -> None: ...

class ProfileUpdate(_message.Message):
    __slots__ = ("epoch", "kind", "revision", "at_us", "resources", "parts", "more")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    kind: ProfileUpdateKind
    revision: int
    at_us: int
    resources: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedCompositeFieldContainer[ProfilePart]
    more: bool
    def __init__(self, epoch: _Optional[int] = ..., kind: _Optional[_Union[ProfileUpdateKind, str]] = ..., revision: _Optional[int] = ..., at_us: _Optional[int] = ..., resources: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[ProfilePart, _Mapping]]] = ..., more: bool = ..., **kwargs) -> None: ...

class ProfilePart(_message.Message):
    __slots__ = ("resource", "from_us", "length_us", "free", "after_us")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    FROM_US_FIELD_NUMBER: _ClassVar[int]
    LENGTH_US_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    AFTER_US_FIELD_NUMBER: _ClassVar[int]
    resource: int
    from_us: int
    length_us: int
    free: _containers.RepeatedScalarFieldContainer[int]
    after_us: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, resource: _Optional[int] = ..., from_us: _Optional[int] = ..., length_us: _Optional[int] = ..., free: _Optional[_Iterable[int]] = ..., after_us: _Optional[_Iterable[int]] = ...) -> None: ...
