from coalloc.v1 import types_pb2 as _types_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskObjective(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_OBJECTIVE_UNSPECIFIED: _ClassVar[TaskObjective]
    TASK_OBJECTIVE_COMPLETION: _ClassVar[TaskObjective]
    TASK_OBJECTIVE_ARRIVAL: _ClassVar[TaskObjective]
    TASK_OBJECTIVE_FEWEST_TASKS: _ClassVar[TaskObjective]
    TASK_OBJECTIVE_WEIGHTED: _ClassVar[TaskObjective]

class TaskSignalling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_SIGNALLING_UNSPECIFIED: _ClassVar[TaskSignalling]
    TASK_SIGNALLING_TELL_AND_GO: _ClassVar[TaskSignalling]
    TASK_SIGNALLING_TELL_AND_WAIT: _ClassVar[TaskSignalling]

class TaskReservation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_RESERVATION_UNSPECIFIED: _ClassVar[TaskReservation]
    TASK_RESERVATION_TWO_PHASE: _ClassVar[TaskReservation]
    TASK_RESERVATION_ONE_WAY: _ClassVar[TaskReservation]
TASK_OBJECTIVE_UNSPECIFIED: TaskObjective
TASK_OBJECTIVE_COMPLETION: TaskObjective
TASK_OBJECTIVE_ARRIVAL: TaskObjective
TASK_OBJECTIVE_FEWEST_TASKS: TaskObjective
TASK_OBJECTIVE_WEIGHTED: TaskObjective
TASK_SIGNALLING_UNSPECIFIED: TaskSignalling
TASK_SIGNALLING_TELL_AND_GO: TaskSignalling
TASK_SIGNALLING_TELL_AND_WAIT: TaskSignalling
TASK_RESERVATION_UNSPECIFIED: TaskReservation
TASK_RESERVATION_TWO_PHASE: TaskReservation
TASK_RESERVATION_ONE_WAY: TaskReservation

class TaskWeights(_message.Message):
    __slots__ = ("completion", "arrival", "per_task")
    COMPLETION_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    PER_TASK_FIELD_NUMBER: _ClassVar[int]
    completion: int
    arrival: int
    per_task: int
    def __init__(self, completion: _Optional[int] = ..., arrival: _Optional[int] = ..., per_task: _Optional[int] = ...) -> None: ...

class TaskOutput(_message.Message):
    __slots__ = ("to", "bytes")
    TO_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    to: str
    bytes: int
    def __init__(self, to: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class TaskRequest(_message.Message):
    __slots__ = ("source", "data_bytes", "work_mi", "cpus", "bandwidth_bps", "ready", "deadline", "objective", "weights", "signalling", "lead", "cluster", "output", "user")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    WORK_MI_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    OBJECTIVE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SIGNALLING_FIELD_NUMBER: _ClassVar[int]
    LEAD_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    source: str
    data_bytes: int
    work_mi: int
    cpus: int
    bandwidth_bps: int
    ready: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    objective: TaskObjective
    weights: TaskWeights
    signalling: TaskSignalling
    lead: _duration_pb2.Duration
    cluster: str
    output: TaskOutput
    user: str
    def __init__(self, source: _Optional[str] = ..., data_bytes: _Optional[int] = ..., work_mi: _Optional[int] = ..., cpus: _Optional[int] = ..., bandwidth_bps: _Optional[int] = ..., ready: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., objective: _Optional[_Union[TaskObjective, str]] = ..., weights: _Optional[_Union[TaskWeights, _Mapping]] = ..., signalling: _Optional[_Union[TaskSignalling, str]] = ..., lead: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cluster: _Optional[str] = ..., output: _Optional[_Union[TaskOutput, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class TaskOptions(_message.Message):
    __slots__ = ("planner", "plans", "link_slot", "cluster_slot", "horizon", "guard_slots")
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    LINK_SLOT_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_SLOT_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    GUARD_SLOTS_FIELD_NUMBER: _ClassVar[int]
    planner: str
    plans: int
    link_slot: _duration_pb2.Duration
    cluster_slot: _duration_pb2.Duration
    horizon: _duration_pb2.Duration
    guard_slots: int
    def __init__(self, planner: _Optional[str] = ..., plans: _Optional[int] = ..., link_slot: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., cluster_slot: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., horizon: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., guard_slots: _Optional[int] = ...) -> None: ...

class TaskLeg(_message.Message):
    __slots__ = ("path", "to", "window")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    path: str
    to: str
    window: _types_pb2.Window
    def __init__(self, path: _Optional[str] = ..., to: _Optional[str] = ..., window: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., **kwargs) -> None: ...

class TaskPlan(_message.Message):
    __slots__ = ("digest", "planner", "cluster", "cpus", "run", "legs", "departure", "arrival", "delay", "proven_optimal", "legs_looked_at", "output_legs", "delivered", "segments")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PLANNER_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LEGS_FIELD_NUMBER: _ClassVar[int]
    DEPARTURE_FIELD_NUMBER: _ClassVar[int]
    ARRIVAL_FIELD_NUMBER: _ClassVar[int]
    DELAY_FIELD_NUMBER: _ClassVar[int]
    PROVEN_OPTIMAL_FIELD_NUMBER: _ClassVar[int]
    LEGS_LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LEGS_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    digest: str
    planner: str
    cluster: str
    cpus: int
    run: _types_pb2.Window
    legs: _containers.RepeatedCompositeFieldContainer[TaskLeg]
    departure: _timestamp_pb2.Timestamp
    arrival: _timestamp_pb2.Timestamp
    delay: _duration_pb2.Duration
    proven_optimal: bool
    legs_looked_at: int
    output_legs: _containers.RepeatedCompositeFieldContainer[TaskLeg]
    delivered: _timestamp_pb2.Timestamp
    segments: _containers.RepeatedCompositeFieldContainer[_types_pb2.Segment]
    def __init__(self, digest: _Optional[str] = ..., planner: _Optional[str] = ..., cluster: _Optional[str] = ..., cpus: _Optional[int] = ..., run: _Optional[_Union[_types_pb2.Window, _Mapping]] = ..., legs: _Optional[_Iterable[_Union[TaskLeg, _Mapping]]] = ..., departure: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., arrival: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., delay: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., proven_optimal: bool = ..., legs_looked_at: _Optional[int] = ..., output_legs: _Optional[_Iterable[_Union[TaskLeg, _Mapping]]] = ..., delivered: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., segments: _Optional[_Iterable[_Union[_types_pb2.Segment, _Mapping]]] = ...) -> None: ...

class TaskEffort(_message.Message):
    __slots__ = ("operations", "paths", "tried")
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    operations: int
    paths: int
    tried: int
    def __init__(self, operations: _Optional[int] = ..., paths: _Optional[int] = ..., tried: _Optional[int] = ...) -> None: ...

class TaskPlanResponse(_message.Message):
    __slots__ = ("plans", "refusal", "nearest", "effort")
    PLANS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    plans: _containers.RepeatedCompositeFieldContainer[TaskPlan]
    refusal: _types_pb2.Refusal
    nearest: TaskPlan
    effort: TaskEffort
    def __init__(self, plans: _Optional[_Iterable[_Union[TaskPlan, _Mapping]]] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., nearest: _Optional[_Union[TaskPlan, _Mapping]] = ..., effort: _Optional[_Union[TaskEffort, _Mapping]] = ...) -> None: ...

class SubmitTaskRequest(_message.Message):
    __slots__ = ("request_id", "task", "options", "reservation", "tries")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    task: TaskRequest
    options: TaskOptions
    reservation: TaskReservation
    tries: int
    def __init__(self, request_id: _Optional[str] = ..., task: _Optional[_Union[TaskRequest, _Mapping]] = ..., options: _Optional[_Union[TaskOptions, _Mapping]] = ..., reservation: _Optional[_Union[TaskReservation, str]] = ..., tries: _Optional[int] = ...) -> None: ...

class SubmitTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: TaskReceipt
    def __init__(self, task: _Optional[_Union[TaskReceipt, _Mapping]] = ...) -> None: ...

class TaskReceipt(_message.Message):
    __slots__ = ("reservation", "request_id", "confirmed", "plan", "refusal", "nearest", "tries", "effort", "definite")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    NEAREST_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    EFFORT_FIELD_NUMBER: _ClassVar[int]
    DEFINITE_FIELD_NUMBER: _ClassVar[int]
    reservation: str
    request_id: str
    confirmed: bool
    plan: TaskPlan
    refusal: _types_pb2.Refusal
    nearest: TaskPlan
    tries: _containers.RepeatedCompositeFieldContainer[TaskTry]
    effort: TaskEffort
    definite: bool
    def __init__(self, reservation: _Optional[str] = ..., request_id: _Optional[str] = ..., confirmed: bool = ..., plan: _Optional[_Union[TaskPlan, _Mapping]] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., nearest: _Optional[_Union[TaskPlan, _Mapping]] = ..., tries: _Optional[_Iterable[_Union[TaskTry, _Mapping]]] = ..., effort: _Optional[_Union[TaskEffort, _Mapping]] = ..., definite: bool = ...) -> None: ...

class TaskTry(_message.Message):
    __slots__ = ("resource_manager", "refusal", "age")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    refusal: _types_pb2.Refusal
    age: _duration_pb2.Duration
    def __init__(self, resource_manager: _Optional[str] = ..., refusal: _Optional[_Union[_types_pb2.Refusal, _Mapping]] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PlanTaskRequest(_message.Message):
    __slots__ = ("task", "options")
    TASK_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    task: TaskRequest
    options: TaskOptions
    def __init__(self, task: _Optional[_Union[TaskRequest, _Mapping]] = ..., options: _Optional[_Union[TaskOptions, _Mapping]] = ...) -> None: ...

class PlanTaskResponse(_message.Message):
    __slots__ = ("answer",)
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    answer: TaskPlanResponse
    def __init__(self, answer: _Optional[_Union[TaskPlanResponse, _Mapping]] = ...) -> None: ...

class ReadPictureRequest(_message.Message):
    __slots__ = ("bandwidth_bps", "cpus", "slot", "slots")
    BANDWIDTH_BPS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    bandwidth_bps: int
    cpus: int
    slot: _duration_pb2.Duration
    slots: int
    def __init__(self, bandwidth_bps: _Optional[int] = ..., cpus: _Optional[int] = ..., slot: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., slots: _Optional[int] = ..., **kwargs) -> None: ...

class ReadPictureResponse(_message.Message):
    __slots__ = ("mode", "at", "parts")
    MODE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    mode: str
    at: _timestamp_pb2.Timestamp
    parts: _containers.RepeatedCompositeFieldContainer[PicturePart]
    def __init__(self, mode: _Optional[str] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[PicturePart, _Mapping]]] = ...) -> None: ...

class PicturePart(_message.Message):
    __slots__ = ("resource_manager", "age", "revision", "updates", "bytes", "ignored", "vectors")
    RESOURCE_MANAGER_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    resource_manager: str
    age: _duration_pb2.Duration
    revision: int
    updates: int
    bytes: int
    ignored: int
    vectors: _containers.RepeatedCompositeFieldContainer[PictureVector]
    def __init__(self, resource_manager: _Optional[str] = ..., age: _Optional[_Union[_duration_pb2.Duration, _Mapping]] = ..., revision: _Optional[int] = ..., updates: _Optional[int] = ..., bytes: _Optional[int] = ..., ignored: _Optional[int] = ..., vectors: _Optional[_Iterable[_Union[PictureVector, _Mapping]]] = ...) -> None: ...

class PictureVector(_message.Message):
    __slots__ = ("resource", "free")
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    resource: str
    free: str
    def __init__(self, resource: _Optional[str] = ..., free: _Optional[str] = ...) -> None: ...
