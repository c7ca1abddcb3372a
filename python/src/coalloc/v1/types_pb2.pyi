from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSPECIFIED: _ClassVar[Reason]
    REASON_INSUFFICIENT_CAPACITY: _ClassVar[Reason]
    REASON_BEYOND_CAPACITY: _ClassVar[Reason]
    REASON_UNKNOWN_RESOURCE: _ClassVar[Reason]
    REASON_OUTSIDE_HORIZON: _ClassVar[Reason]
    REASON_NO_ROUTE: _ClassVar[Reason]
    REASON_BUDGET_EXHAUSTED: _ClassVar[Reason]
    REASON_UNREACHABLE: _ClassVar[Reason]
    REASON_ABORTED: _ClassVar[Reason]
    REASON_EXPIRED: _ClassVar[Reason]
    REASON_RELEASED: _ClassVar[Reason]
    REASON_NOT_HELD: _ClassVar[Reason]
    REASON_COORDINATOR_RESTARTED: _ClassVar[Reason]
    REASON_TIMED_OUT: _ClassVar[Reason]
    REASON_MIXED: _ClassVar[Reason]
    REASON_DENIED: _ClassVar[Reason]
    REASON_PLAN_OUTDATED: _ClassVar[Reason]
    REASON_SERVICE_LEVEL: _ClassVar[Reason]
    REASON_REPLACED: _ClassVar[Reason]
    REASON_DISK_FULL: _ClassVar[Reason]
    REASON_QUOTA: _ClassVar[Reason]
    REASON_UNSUPPORTED: _ClassVar[Reason]
    REASON_EQUIPMENT: _ClassVar[Reason]

class BottleneckKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BOTTLENECK_KIND_UNSPECIFIED: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_SITE: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_SITES: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_PATH: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_CUT: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_LENGTH: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_LATENCY: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_PATHS: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_PACKING: _ClassVar[BottleneckKind]
    BOTTLENECK_KIND_COMBINATION: _ClassVar[BottleneckKind]

class Objective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBJECTIVE_UNSPECIFIED: _ClassVar[Objective]
    OBJECTIVE_START: _ClassVar[Objective]
    OBJECTIVE_PRICE: _ClassVar[Objective]
    OBJECTIVE_QUALITY: _ClassVar[Objective]
    OBJECTIVE_LOAD: _ClassVar[Objective]
    OBJECTIVE_PREFERENCE: _ClassVar[Objective]
REASON_UNSPECIFIED: Reason
REASON_INSUFFICIENT_CAPACITY: Reason
REASON_BEYOND_CAPACITY: Reason
REASON_UNKNOWN_RESOURCE: Reason
REASON_OUTSIDE_HORIZON: Reason
REASON_NO_ROUTE: Reason
REASON_BUDGET_EXHAUSTED: Reason
REASON_UNREACHABLE: Reason
REASON_ABORTED: Reason
REASON_EXPIRED: Reason
REASON_RELEASED: Reason
REASON_NOT_HELD: Reason
REASON_COORDINATOR_RESTARTED: Reason
REASON_TIMED_OUT: Reason
REASON_MIXED: Reason
REASON_DENIED: Reason
REASON_PLAN_OUTDATED: Reason
REASON_SERVICE_LEVEL: Reason
REASON_REPLACED: Reason
REASON_DISK_FULL: Reason
REASON_QUOTA: Reason
REASON_UNSUPPORTED: Reason
REASON_EQUIPMENT: Reason
BOTTLENECK_KIND_UNSPECIFIED: BottleneckKind
BOTTLENECK_KIND_SITE: BottleneckKind
BOTTLENECK_KIND_SITES: BottleneckKind
BOTTLENECK_KIND_PATH: BottleneckKind
BOTTLENECK_KIND_CUT: BottleneckKind
BOTTLENECK_KIND_LENGTH: BottleneckKind
BOTTLENECK_KIND_LATENCY: BottleneckKind
BOTTLENECK_KIND_PATHS: BottleneckKind
BOTTLENECK_KIND_PACKING: BottleneckKind
BOTTLENECK_KIND_COMBINATION: BottleneckKind
OBJECTIVE_UNSPECIFIED: Objective
OBJECTIVE_START: Objective
OBJECTIVE_PRICE: Objective
OBJECTIVE_QUALITY: Objective
OBJECTIVE_LOAD: Objective
OBJECTIVE_PREFERENCE: Objective

class Window(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: _timestamp_pb2.Timestamp
    end: _timestamp_pb2.Timestamp
    def __init__(self, start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("resource", "amount", "window", "resource_manager")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    resource: str
    amount: int
    window: Window
    resource_manager: str
    def __init__(self, resource: _Optional[str] = ..., amount: _Optional[int] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., resource_manager: _Optional[str] = ...) -> None: ...

class Version(_message.Message):
    __slots__ = ("protocol", "capabilities", "program")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    PROGRAM_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    capabilities: _containers.RepeatedScalarFieldContainer[str]
    program: str
    def __init__(self, protocol: _Optional[int] = ..., capabilities: _Optional[_Iterable[str]] = ..., program: _Optional[str] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("reason", "resource_manager", "resource", "window", "requested", "available", "detail", "transient", "nsi_error", "bottleneck")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_FIELD_NUMBER: _ClassVar[int]
    NSI_ERROR_FIELD_NUMBER: _ClassVar[int]
    BOTTLENECK_FIELD_NUMBER: _ClassVar[int]
    reason: Reason
    resource_manager: str
    resource: str
    window: Window
    requested: int
    available: int
    detail: str
    transient: bool
    nsi_error: str
    bottleneck: Bottleneck
    def __init__(self, reason: _Optional[_Union[Reason, str]] = ..., resource_manager: _Optional[str] = ..., resource: _Optional[str] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., requested: _Optional[int] = ..., available: _Optional[int] = ..., detail: _Optional[str] = ..., transient: bool = ..., nsi_error: _Optional[str] = ..., bottleneck: _Optional[_Union[Bottleneck, _Mapping]] = ...) -> None: ...

class Bottleneck(_message.Message):
    __slots__ = ("kind", "demands", "resources", "requested", "available", "resource_kind")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DEMANDS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_KIND_FIELD_NUMBER: _ClassVar[int]
    kind: BottleneckKind
    demands: _containers.RepeatedScalarFieldContainer[str]
    resources: _containers.RepeatedScalarFieldContainer[str]
    requested: int
    available: int
    resource_kind: str
    def __init__(self, kind: _Optional[_Union[BottleneckKind, str]] = ..., demands: _Optional[_Iterable[str]] = ..., resources: _Optional[_Iterable[str]] = ..., requested: _Optional[int] = ..., available: _Optional[int] = ..., resource_kind: _Optional[str] = ...) -> None: ...

class Alternatives(_message.Message):
    __slots__ = ("nearest_window", "nearest_plan", "smaller", "searched_until", "complete", "starts_tried")
    NEAREST_WINDOW_FIELD_NUMBER: _ClassVar[int]
    NEAREST_PLAN_FIELD_NUMBER: _ClassVar[int]
    SMALLER_FIELD_NUMBER: _ClassVar[int]
    SEARCHED_UNTIL_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    STARTS_TRIED_FIELD_NUMBER: _ClassVar[int]
    nearest_window: Window
    nearest_plan: Plan
    smaller: _containers.RepeatedCompositeFieldContainer[SmallerRequest]
    searched_until: _timestamp_pb2.Timestamp
    complete: bool
    starts_tried: int
    def __init__(self, nearest_window: _Optional[_Union[Window, _Mapping]] = ..., nearest_plan: _Optional[_Union[Plan, _Mapping]] = ..., smaller: _Optional[_Iterable[_Union[SmallerRequest, _Mapping]]] = ..., searched_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., complete: bool = ..., starts_tried: _Optional[int] = ...) -> None: ...

class SmallerRequest(_message.Message):
    __slots__ = ("change", "request", "plan")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    change: str
    request: CoAllocationRequest
    plan: Plan
    def __init__(self, change: _Optional[str] = ..., request: _Optional[_Union[CoAllocationRequest, _Mapping]] = ..., plan: _Optional[_Union[Plan, _Mapping]] = ...) -> None: ...

class CoAllocationRequest(_message.Message):
    __slots__ = ("sites", "links", "earliest_start", "latest_start", "duration", "user", "manual_provision", "series")
    SITES_FIELD_NUMBER: _ClassVar[int]
    LINKS_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_START_FIELD_NUMBER: _ClassVar[int]
    LATEST_START_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    MANUAL_PROVISION_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    sites: _containers.RepeatedCompositeFieldContainer[SiteRequest]
    links: _containers.RepeatedCompositeFieldContainer[LinkRequest]
    earliest_start: _timestamp_pb2.Timestamp
    latest_start: _timestamp_pb2.Timestamp
    duration: _duration_pb2.Duration
    user: str
    manual_provision: bool
    series: str
    def __init__(self, sites: _Optional[_Iterable[_Union[SiteRequest, _Mapping]]] = ..., links: _Optional[_Iterable[_Union[LinkRequest, _Mapping]]] = ..., earliest_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., latest_start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., user: _Optional[str] = ..., manual_provision: bool = ..., series: _Optional[str] = ...) -> None: ...

class SiteRequest(_message.Message):
    __slots__ = ("name", "cpus", "pinned_to", "excluded", "others", "offset", "length")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    PINNED_TO_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    name: str
    cpus: int
    pinned_to: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    others: _containers.RepeatedCompositeFieldContainer[KindAmount]
    offset: _duration_pb2.Duration
    length: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., cpus: _Optional[int] = ..., pinned_to: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ..., others: _Optional[_Iterable[_Union[KindAmount, _Mapping]]] = ..., offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class KindAmount(_message.Message):
    __slots__ = ("kind", "amount", "offset", "length")
    KIND_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    kind: str
    amount: int
    offset: _duration_pb2.Duration
    length: _duration_pb2.Duration
    def __init__(self, kind: _Optional[str] = ..., amount: _Optional[int] = ..., offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class LinkRequest(_message.Message):
    __slots__ = ("to", "bandwidth_bps", "max_latency", "offset", "length")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    MAX_LATENCY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    to: str
    bandwidth_bps: int
    max_latency: _duration_pb2.Duration
    offset: _duration_pb2.Duration
    length: _duration_pb2.Duration
    def __init__(self, to: _Optional[str] = ..., bandwidth_bps: _Optional[int] = ..., max_latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., offset: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., length: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., **kwargs) -> None: ...

class PlanOptions(_message.Message):
    __slots__ = ("frames", "max_paths_per_link", "solver", "objectives", "plans", "alternatives")
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    MAX_PATHS_PER_LINK_FIELD_NUMBER: _ClassVar[int]
    SOLVER_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVES_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    frames: int
    max_paths_per_link: int
    solver: str
    objectives: _containers.RepeatedScalarFieldContainer[Objective]
    plans: int
    alternatives: bool
    def __init__(self, frames: _Optional[int] = ..., max_paths_per_link: _Optional[int] = ..., solver: _Optional[str] = ..., objectives: _Optional[_Iterable[_Union[Objective, str]]] = ..., plans: _Optional[int] = ..., alternatives: bool = ...) -> None: ...

class ObjectiveValue(_message.Message):
    __slots__ = ("objective", "value")
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    objective: Objective
    value: int
    def __init__(self, objective: _Optional[_Union[Objective, str]] = ..., value: _Optional[int] = ...) -> None: ...

class PriceSchedule(_message.Message):
    __slots__ = ("utc_offset", "bands")
    UTC_OFFSET_FIELD_NUMBER: _ClassVar[int]
    BANDS_FIELD_NUMBER: _ClassVar[int]
    utc_offset: str
    bands: _containers.RepeatedCompositeFieldContainer[PriceBand]
    def __init__(self, utc_offset: _Optional[str] = ..., bands: _Optional[_Iterable[_Union[PriceBand, _Mapping]]] = ...) -> None: ...

class PriceBand(_message.Message):
    __slots__ = ("to", "unit_price_millipoints")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    UNIT_PRICE_MILLIPOINTS_FIELD_NUMBER: _ClassVar[int]
    to: str
    unit_price_millipoints: int
    def __init__(self, to: _Optional[str] = ..., unit_price_millipoints: _Optional[int] = ..., **kwargs) -> None: ...

class Placement(_message.Message):
    __slots__ = ("site", "at", "cpus", "others", "window")
    SITE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    site: str
    at: str
    cpus: int
    others: _containers.RepeatedCompositeFieldContainer[KindAmount]
    window: Window
    def __init__(self, site: _Optional[str] = ..., at: _Optional[str] = ..., cpus: _Optional[int] = ..., others: _Optional[_Iterable[_Union[KindAmount, _Mapping]]] = ..., window: _Optional[_Union[Window, _Mapping]] = ...) -> None: ...

class Route(_message.Message):
    __slots__ = ("to", "bandwidth_bps", "paths", "via", "latency", "window")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    LATENCY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    to: str
    bandwidth_bps: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    via: _containers.RepeatedScalarFieldContainer[str]
    latency: _duration_pb2.Duration
    window: Window
    def __init__(self, to: _Optional[str] = ..., bandwidth_bps: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ..., via: _Optional[_Iterable[str]] = ..., latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., **kwargs) -> None: ...

class Plan(_message.Message):
    __slots__ = ("digest", "window", "placements", "routes", "segments", "cost_millipoints", "lower_bound_millipoints", "proven_optimal", "values", "solver", "coarse")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    COST_MILLIPOINTS_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_MILLIPOINTS_FIELD_NUMBER: _ClassVar[int]
    PROVEN_OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SOLVER_FIELD_NUMBER: _ClassVar[int]
    COARSE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    window: Window
    placements: _containers.RepeatedCompositeFieldContainer[Placement]
    routes: _containers.RepeatedCompositeFieldContainer[Route]
    segments: _containers.RepeatedCompositeFieldContainer[Segment]
    cost_millipoints: int
    lower_bound_millipoints: int
    proven_optimal: bool
    values: _containers.RepeatedCompositeFieldContainer[ObjectiveValue]
    solver: str
    coarse: _containers.RepeatedScalarFieldContainer[Objective]
    def __init__(self, digest: _Optional[str] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., placements: _Optional[_Iterable[_Union[Placement, _Mapping]]] = ..., routes: _Optional[_Iterable[_Union[Route, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., cost_millipoints: _Optional[int] = ..., lower_bound_millipoints: _Optional[int] = ..., proven_optimal: bool = ..., values: _Optional[_Iterable[_Union[ObjectiveValue, _Mapping]]] = ..., solver: _Optional[str] = ..., coarse: _Optional[_Iterable[_Union[Objective, str]]] = ...) -> None: ...

class RefusedFrame(_message.Message):
    __slots__ = ("window", "refusal")
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    window: Window
    refusal: Refusal
    def __init__(self, window: _Optional[_Union[Window, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...
