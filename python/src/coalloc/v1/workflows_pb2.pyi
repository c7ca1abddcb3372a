from coalloc.v1 import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActivityProgress(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVITY_PROGRESS_UNSPECIFIED: _ClassVar[ActivityProgress]
    ACTIVITY_PROGRESS_WAITING: _ClassVar[ActivityProgress]
    ACTIVITY_PROGRESS_RUNNING: _ClassVar[ActivityProgress]
    ACTIVITY_PROGRESS_FINISHED: _ClassVar[ActivityProgress]
    ACTIVITY_PROGRESS_FAILED: _ClassVar[ActivityProgress]

class RevisionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REVISION_STATE_UNSPECIFIED: _ClassVar[RevisionState]
    REVISION_STATE_NOTHING: _ClassVar[RevisionState]
    REVISION_STATE_PLANNED: _ClassVar[RevisionState]
    REVISION_STATE_UNDER_WAY: _ClassVar[RevisionState]
    REVISION_STATE_DONE: _ClassVar[RevisionState]
    REVISION_STATE_REFUSED: _ClassVar[RevisionState]

class ActivityEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTIVITY_EVENT_UNSPECIFIED: _ClassVar[ActivityEvent]
    ACTIVITY_EVENT_STARTED: _ClassVar[ActivityEvent]
    ACTIVITY_EVENT_FINISHED: _ClassVar[ActivityEvent]
    ACTIVITY_EVENT_FAILED: _ClassVar[ActivityEvent]
    ACTIVITY_EVENT_NEEDS_UNTIL: _ClassVar[ActivityEvent]
ACTIVITY_PROGRESS_UNSPECIFIED: ActivityProgress
ACTIVITY_PROGRESS_WAITING: ActivityProgress
ACTIVITY_PROGRESS_RUNNING: ActivityProgress
ACTIVITY_PROGRESS_FINISHED: ActivityProgress
ACTIVITY_PROGRESS_FAILED: ActivityProgress
REVISION_STATE_UNSPECIFIED: RevisionState
REVISION_STATE_NOTHING: RevisionState
REVISION_STATE_PLANNED: RevisionState
REVISION_STATE_UNDER_WAY: RevisionState
REVISION_STATE_DONE: RevisionState
REVISION_STATE_REFUSED: RevisionState
ACTIVITY_EVENT_UNSPECIFIED: ActivityEvent
ACTIVITY_EVENT_STARTED: ActivityEvent
ACTIVITY_EVENT_FINISHED: ActivityEvent
ACTIVITY_EVENT_FAILED: ActivityEvent
ACTIVITY_EVENT_NEEDS_UNTIL: ActivityEvent

class Workflow(_message.Message):
    __slots__ = ("activities", "data", "sync_sets", "channels", "same_site", "ready", "deadline", "user")
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SYNC_SETS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    SAME_SITE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    activities: _containers.RepeatedCompositeFieldContainer[WorkflowActivity]
    data: _containers.RepeatedCompositeFieldContainer[WorkflowData]
    sync_sets: _containers.RepeatedCompositeFieldContainer[ActivitySet]
    channels: _containers.RepeatedCompositeFieldContainer[WorkflowChannel]
    same_site: _containers.RepeatedCompositeFieldContainer[ActivitySet]
    ready: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    user: str
    def __init__(self, activities: _Optional[_Iterable[_Union[WorkflowActivity, _Mapping]]] = ..., data: _Optional[_Iterable[_Union[WorkflowData, _Mapping]]] = ..., sync_sets: _Optional[_Iterable[_Union[ActivitySet, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[WorkflowChannel, _Mapping]]] = ..., same_site: _Optional[_Iterable[_Union[ActivitySet, _Mapping]]] = ..., ready: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class WorkflowActivity(_message.Message):
    __slots__ = ("name", "load_mi", "duration", "durations", "cpus", "others", "sites", "excluded")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LOAD_MI_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    DURATIONS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    name: str
    load_mi: int
    duration: _duration_pb2.Duration
    durations: _containers.RepeatedCompositeFieldContainer[SiteDuration]
    cpus: int
    others: _containers.RepeatedCompositeFieldContainer[_types_pb2.KindAmount]
    sites: _containers.RepeatedScalarFieldContainer[str]
    excluded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., load_mi: _Optional[int] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., durations: _Optional[_Iterable[_Union[SiteDuration, _Mapping]]] = ..., cpus: _Optional[int] = ..., others: _Optional[_Iterable[_Union[_types_pb2.KindAmount, _Mapping]]] = ..., sites: _Optional[_Iterable[str]] = ..., excluded: _Optional[_Iterable[str]] = ...) -> None: ...

class SiteDuration(_message.Message):
    __slots__ = ("site", "duration")
    SITE_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    site: str
    duration: _duration_pb2.Duration
    def __init__(self, site: _Optional[str] = ..., duration: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WorkflowData(_message.Message):
    __slots__ = ("name", "bytes", "from_site", "to", "rate_bps")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    FROM_SITE_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    bytes: int
    from_site: str
    to: _containers.RepeatedScalarFieldContainer[str]
    rate_bps: int
    def __init__(self, name: _Optional[str] = ..., bytes: _Optional[int] = ..., from_site: _Optional[str] = ..., to: _Optional[_Iterable[str]] = ..., rate_bps: _Optional[int] = ..., **kwargs) -> None: ...

class ActivitySet(_message.Message):
    __slots__ = ("activities",)
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    activities: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, activities: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkflowChannel(_message.Message):
    __slots__ = ("to", "bandwidth_bps", "max_latency")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    MAX_LATENCY_FIELD_NUMBER: _ClassVar[int]
    to: str
    bandwidth_bps: int
    max_latency: _duration_pb2.Duration
    def __init__(self, to: _Optional[str] = ..., bandwidth_bps: _Optional[int] = ..., max_latency: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., **kwargs) -> None: ...

class WorkflowOptions(_message.Message):
    __slots__ = ("planner", "max_paths_per_route", "discrepancies", "tries")
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    MAX_PATHS_PER_ROUTE_FIELD_NUMBER: _ClassVar[int]
    DISCREPANCIES_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    planner: str
    max_paths_per_route: int
    discrepancies: int
    tries: int
    def __init__(self, planner: _Optional[str] = ..., max_paths_per_route: _Optional[int] = ..., discrepancies: _Optional[int] = ..., tries: _Optional[int] = ...) -> None: ...

class WorkflowPlan(_message.Message):
    __slots__ = ("digest", "planner", "window", "makespan", "summary", "activities", "transfers", "channels", "merged", "critical_path", "segments")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    MAKESPAN_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    MERGED_FIELD_NUMBER: _ClassVar[int]
    CRITICAL_PATH_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    planner: str
    window: _types_pb2.Window
    makespan: _duration_pb2.Duration
    summary: WorkflowSummary
    activities: _containers.RepeatedCompositeFieldContainer[PlannedActivity]
    transfers: _containers.RepeatedCompositeFieldContainer[PlannedTransfer]
    channels: _containers.RepeatedCompositeFieldContainer[PlannedChannel]
    merged: _containers.RepeatedCompositeFieldContainer[MergedSets]
    critical_path: _containers.RepeatedCompositeFieldContainer[CriticalStep]
    segments: _containers.RepeatedCompositeFieldContainer[_types_pb2.Segment]
    def __init__(self, digest: _Optional[str] = ..., planner: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., makespan: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., summary: _Optional[_Union[WorkflowSummary, _Mapping]] = ..., activities: _Optional[_Iterable[_Union[PlannedActivity, _Mapping]]] = ..., transfers: _Optional[_Iterable[_Union[PlannedTransfer, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[PlannedChannel, _Mapping]]] = ..., merged: _Optional[_Iterable[_Union[MergedSets, _Mapping]]] = ..., critical_path: _Optional[_Iterable[_Union[CriticalStep, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[_types_pb2.Segment, _Mapping]]] = ...) -> None: ...

class WorkflowSummary(_message.Message):
    __slots__ = ("activities", "transfers", "channels", "segments", "sites")
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SITES_FIELD_NUMBER: _ClassVar[int]
    activities: int
    transfers: int
    channels: int
    segments: _containers.RepeatedCompositeFieldContainer[SegmentCount]
    sites: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, activities: _Optional[int] = ..., transfers: _Optional[int] = ..., channels: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[SegmentCount, _Mapping]]] = ..., sites: _Optional[_Iterable[str]] = ...) -> None: ...

class SegmentCount(_message.Message):
    __slots__ = ("resource_manager", "segments")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    segments: int
    def __init__(self, resource_manager: _Optional[str] = ..., segments: _Optional[int] = ...) -> None: ...

class PlannedActivity(_message.Message):
    __slots__ = ("name", "site", "cpus", "others", "window", "in_sync_set", "progress", "reported")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_SET_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    site: str
    cpus: int
    others: _containers.RepeatedCompositeFieldContainer[_types_pb2.KindAmount]
    window: _types_pb2.Window
    in_sync_set: bool
    progress: ActivityProgress
    reported: bool
    def __init__(self, name: _Optional[str] = ..., site: _Optional[str] = ..., cpus: _Optional[int] = ..., others: _Optional[_Iterable[_Union[_types_pb2.KindAmount, _Mapping]]] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., in_sync_set: bool = ..., progress: _Optional[_Union[ActivityProgress, str]] = ..., reported: bool = ...) -> None: ...

class PlannedTransfer(_message.Message):
    __slots__ = ("data", "to", "paths", "rate_bps", "window")
    DATA_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    RATE_BPS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    data: str
    to: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    rate_bps: int
    window: _types_pb2.Window
    def __init__(self, data: _Optional[str] = ..., to: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., rate_bps: _Optional[int] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., **kwargs) -> None: ...

class PlannedChannel(_message.Message):
    __slots__ = ("to", "bandwidth_bps", "paths", "window")
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    to: str
    bandwidth_bps: int
    paths: _containers.RepeatedScalarFieldContainer[str]
    window: _types_pb2.Window
    def __init__(self, to: _Optional[str] = ..., bandwidth_bps: _Optional[int] = ..., paths: _Optional[_Iterable[str]] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., **kwargs) -> None: ...

class MergedSets(_message.Message):
    __slots__ = ("sync_sets", "activities")
    SYNC_SETS_FIELD_NUMBER: _ClassVar[int]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    sync_sets: _containers.RepeatedScalarFieldContainer[int]
    activities: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, sync_sets: _Optional[_Iterable[int]] = ..., activities: _Optional[_Iterable[str]] = ...) -> None: ...

class CriticalStep(_message.Message):
    __slots__ = ("activity", "data", "site", "window")
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    activity: str
    data: str
    site: str
    window: _types_pb2.Window
    def __init__(self, activity: _Optional[str] = ..., data: _Optional[str] = ..., site: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ...) -> None: ...

class WorkflowEffort(_message.Message):
    __slots__ = ("placements", "frames")
    PLACEMENTS_FIELD_NUMBER: _ClassVar[int]
    FRAMES_FIELD_NUMBER: _ClassVar[int]
    placements: int
    frames: int
    def __init__(self, placements: _Optional[int] = ..., frames: _Optional[int] = ...) -> None: ...

class WorkflowRefusal(_message.Message):
    __slots__ = ("activities", "refusal", "earliest_finish")
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_FINISH_FIELD_NUMBER: _ClassVar[int]
    activities: _containers.RepeatedScalarFieldContainer[str]
    refusal: _types_pb2.Refusal
    earliest_finish: _timestamp_pb2.Timestamp
    def __init__(self, activities: _Optional[_Iterable[str]] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., earliest_finish: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class PlanWorkflowRequest(_message.Message):
    __slots__ = ("workflow", "options")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    workflow: Workflow
    options: WorkflowOptions
    def __init__(self, workflow: _Optional[_Union[Workflow, _Mapping]] = ..., options: _Optional[_Union[WorkflowOptions, _Mapping]] = ...) -> None: ...

class PlanWorkflowResponse(_message.Message):
    __slots__ = ("plan", "refusal", "effort")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    plan: WorkflowPlan
    refusal: WorkflowRefusal
    effort: WorkflowEffort
    def __init__(self, plan: _Optional[_Union[WorkflowPlan, _Mapping]] = ..., refusal: _Optional[_Union[WorkflowRefusal, _Mapping]] = ..., effort: _Optional[_Union[WorkflowEffort, _Mapping]] = ...) -> None: ...

class SubmitWorkflowRequest(_message.Message):
    __slots__ = ("request_id", "workflow", "options")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    workflow: Workflow
    options: WorkflowOptions
    def __init__(self, request_id: _Optional[str] = ..., workflow: _Optional[_Union[Workflow, _Mapping]] = ..., options: _Optional[_Union[WorkflowOptions, _Mapping]] = ...) -> None: ...

class SubmitWorkflowResponse(_message.Message):
    __slots__ = ("workflow", "next_page_token")
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    workflow: WorkflowReceipt
    next_page_token: str
    def __init__(self, workflow: _Optional[_Union[WorkflowReceipt, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WorkflowReceipt(_message.Message):
    __slots__ = ("reservation", "request_id", "confirmed", "plan", "refusal", "tries", "effort", "definite", "version", "revision")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    DEFINITE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    reservation: str
    request_id: str
    confirmed: bool
    plan: WorkflowPlan
    refusal: WorkflowRefusal
    tries: _containers.RepeatedCompositeFieldContainer[_types_pb2.Refusal]
    effort: WorkflowEffort
    definite: bool
    version: int
    revision: WorkflowRevision
    def __init__(self, reservation: _Optional[str] = ..., request_id: _Optional[str] = ..., confirmed: bool = ..., plan: _Optional[_Union[WorkflowPlan, _Mapping]] = ..., refusal: _Optional[_Union[WorkflowRefusal, _Mapping]] = ..., tries: _Optional[_Iterable[_Union[_types_pb2.Refusal, _Mapping]]] = ..., effort: _Optional[_Union[WorkflowEffort, _Mapping]] = ..., definite: bool = ..., version: _Optional[int] = ..., revision: _Optional[_Union[WorkflowRevision, _Mapping]] = ...) -> None: ...

class WorkflowRevision(_message.Message):
    __slots__ = ("state", "change_id", "moved", "resized", "refusal")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    RESIZED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    state: RevisionState
    change_id: str
    moved: _containers.RepeatedScalarFieldContainer[str]
    resized: _containers.RepeatedScalarFieldContainer[str]
    refusal: WorkflowRefusal
    def __init__(self, state: _Optional[_Union[RevisionState, str]] = ..., change_id: _Optional[str] = ..., moved: _Optional[_Iterable[str]] = ..., resized: _Optional[_Iterable[str]] = ..., refusal: _Optional[_Union[WorkflowRefusal, _Mapping]] = ...) -> None: ...

class ReportActivityRequest(_message.Message):
    __slots__ = ("id", "report_id", "user", "activity", "event", "until", "time", "excluded")
    ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    ACTIVITY_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    id: str
    report_id: str
    user: str
    activity: str
    event: ActivityEvent
    until: _timestamp_pb2.Timestamp
    time: _timestamp_pb2.Timestamp
    excluded: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., report_id: _Optional[str] = ..., user: _Optional[str] = ..., activity: _Optional[str] = ..., event: _Optional[_Union[ActivityEvent, str]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., time: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., excluded: _Optional[_Iterable[str]] = ...) -> None: ...

class ReportActivityResponse(_message.Message):
    __slots__ = ("reservation", "revision", "version")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    reservation: str
    revision: WorkflowRevision
    version: int
    def __init__(self, reservation: _Optional[str] = ..., revision: _Optional[_Union[WorkflowRevision, _Mapping]] = ..., version: _Optional[int] = ...) -> None: ...

class ReviseWorkflowRequest(_message.Message):
    __slots__ = ("id", "change_id", "user", "excluded", "again", "deadline", "plan_only")
    ID_FIELD_NUMBER: _ClassVar[int]
    CHANGE_ID_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    PLAN_ONLY_FIELD_NUMBER: _ClassVar[int]
    id: str
    change_id: str
    user: str
    excluded: _containers.RepeatedScalarFieldContainer[str]
    again: _containers.RepeatedScalarFieldContainer[str]
    deadline: _timestamp_pb2.Timestamp
    plan_only: bool
    def __init__(self, id: _Optional[str] = ..., change_id: _Optional[str] = ..., user: _Optional[str] = ..., excluded: _Optional[_Iterable[str]] = ..., again: _Optional[_Iterable[str]] = ..., deadline: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., plan_only: bool = ...) -> None: ...

class ReviseWorkflowResponse(_message.Message):
    __slots__ = ("revision", "workflow", "next_page_token")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    WORKFLOW_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    revision: WorkflowRevision
    workflow: WorkflowReceipt
    next_page_token: str
    def __init__(self, revision: _Optional[_Union[WorkflowRevision, _Mapping]] = ..., workflow: _Optional[_Union[WorkflowReceipt, _Mapping]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetWorkflowRequest(_message.Message):
    __slots__ = ("id", "page_size", "page_token")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    page_size: int
    page_token: str
    def __init__(self, id: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...
