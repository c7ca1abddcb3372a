"""Generated from coalloc/v1/tasks.proto by tools/generate.py: change the schema, not this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from google.protobuf.message import Message

from coalloc._value import OpenEnum, Value
from coalloc.messages.types import Refusal, Segment, Window
from coalloc.v1 import tasks_pb2


class TaskObjective(OpenEnum):
    """What makes one plan of a task better than another. Between plans that are equal, the
    earlier completion decides, then the smaller delay.
    """

    UNSPECIFIED = 0
    """The same as COMPLETION."""
    COMPLETION = 1
    """The run ends as early as possible."""
    ARRIVAL = 2
    """The last data arrive at the cluster as early as possible."""
    FEWEST_TASKS = 3
    """The cluster has the fewest tasks scheduled."""
    WEIGHTED = 4
    """The smallest sum with the weights of `weights`, which is then required."""


class TaskSignalling(OpenEnum):
    """What happens before data are sent."""

    UNSPECIFIED = 0
    """The same as TELL_AND_GO."""
    TELL_AND_GO = 1
    """One-way: the data are sent `lead` after the message that announces them."""
    TELL_AND_WAIT = 2
    """Two-way: the data are sent once the answer is back, that is, after a round trip over the
    path and `lead`.
    """


class TaskReservation(OpenEnum):
    """How the segments of a plan are reserved."""

    UNSPECIFIED = 0
    """The same as TWO_PHASE."""
    TWO_PHASE = 1
    """Every segment is held first, then all are committed."""
    ONE_WAY = 2
    """Each segment is booked with one message at its resource manager, one after the other along
    the route of the data. If one is refused, those booked before it are ended.
    """


@dataclass(frozen=True)
class TaskWeights(Value):
    """The weights of TASK_OBJECTIVE_WEIGHTED. The sum is in microseconds."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskWeights

    completion: int = 0
    """Weight of the time from `ready` to the completion; any number."""
    arrival: int = 0
    """Weight of the time from `ready` to the arrival of the data; any number."""
    per_task: int = 0
    """Microseconds that count for each task scheduled at the cluster; any number."""

    @property
    def raw(self) -> tasks_pb2.TaskWeights:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskWeights)


@dataclass(frozen=True)
class TaskOutput(Value):
    """Results that are sent on when the run has ended."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskOutput

    to: str = ""
    """Where the results go: a site or an exchange point. Required. A name that the federation
    does not have is INVALID_ARGUMENT.
    """
    bytes: int = 0
    """Size of the results in bytes, 1 to 2^50."""

    @property
    def raw(self) -> tasks_pb2.TaskOutput:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskOutput)


@dataclass(frozen=True)
class TaskRequest(Value):
    """A task as a user requests it: the content of a task file."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskRequest

    source: str = ""
    """Where the input data are: a site or an exchange point. Required. A name that the
    federation does not have is INVALID_ARGUMENT.
    """
    data_bytes: int = 0
    """Size of the input data in bytes, 1 to 2^50."""
    work_mi: int = 0
    """Work for each of the CPUs, in million instructions, 1 to 2^50."""
    cpus: int | None = None
    """CPUs that the task runs on, all at one cluster, 1 to 10,000,000. Unset: 1."""
    bandwidth_bps: int = 0
    """Rate at which the data are sent on every path, in bit/s, 1 to 10^15."""
    ready: datetime | None = None
    """Nothing may happen before this instant. Unset: as soon as the coordinator can."""
    deadline: datetime | None = None
    """The latest end of the run or, with `output`, the latest delivery of the results. Later
    than `ready`. Unset: any time.
    """
    objective: TaskObjective = TaskObjective.UNSPECIFIED
    """What makes a plan best. With `output` the earliest delivery is best, and this field must
    be unset.
    """
    weights: TaskWeights | None = None
    """The weights; only with TASK_OBJECTIVE_WEIGHTED."""
    signalling: TaskSignalling = TaskSignalling.UNSPECIFIED
    """What happens before data are sent."""
    lead_us: int | None = None
    """Time that nodes need to read the message which announces the data, 0 s to 10 s. Unset: 0
    s. In microseconds.
    """
    cluster: str | None = None
    """The only site at which the task may run. Unset: any."""
    output: TaskOutput | None = None
    """Results that are sent on after the run. Unset: none."""
    user: str = ""
    """The user whose task it is. Empty: the caller, if it has proven to be a user, or else
    "anonymous".
    """

    @property
    def raw(self) -> tasks_pb2.TaskRequest:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskRequest)


@dataclass(frozen=True)
class TaskOptions(Value):
    """How a task is planned. All fields may be unset."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskOptions

    planner: str | None = None
    """The planner: "mc-t" (path, cluster and both starts together, proven best), "awmc-t" (the
    same, by weights of the paths; polynomial), "mc-b" (the cluster at which data arrive
    first), "ect" (the cluster that completes first over its shortest path), "ect-first-link"
    (looks only at the first link), "samcra" and "samcra-hbh" (by the loads at this moment),
    "mc-t-printed" (the papers' relation as it is printed). Unset: "mc-t". Any other name is
    INVALID_ARGUMENT.
    """
    plans: int | None = None
    """Number of plans wanted, 1 to 64. Unset: 1."""
    link_slot_us: int | None = None
    """Length of a slot in the availability vectors of paths, 1 us to 1 day. Unset: the shortest
    of 1, 2, 5, 10, ... ms with which 10,000 slots cover the horizon. In microseconds.
    """
    cluster_slot_us: int | None = None
    """Length of a slot in the availability vectors of clusters, 1 us to 1 day. Unset: that of
    the paths. In microseconds.
    """
    horizon_us: int | None = None
    """Time that the vectors cover, from `ready` on. A vector has at most 131,072 slots. Unset: 1
    h, or the time to the deadline when that is longer. In microseconds.
    """
    guard_slots: int | None = None
    """Number of slots taken on each path in front of those in which data are expected, 0 to
    1,000. Planners round the delay of a path up to whole slots; if no node holds data until
    the next slot begins, they arrive early, by less than one slot for each path. Unset: 0.
    """

    @property
    def raw(self) -> tasks_pb2.TaskOptions:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskOptions)


@dataclass(frozen=True)
class TaskLeg(Value):
    """One path on the route of a task's data, and when the data are on it."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskLeg

    path: str = ""
    """Name of the path."""
    from_: str = ""
    """Where the data come from: a site or an exchange point."""
    to: str = ""
    """Where the data go to: a site or an exchange point."""
    window: Window = field(kw_only=True)
    """When the path is taken. On each path this is later than on the path before, by the latency
    of that path in whole slots.
    """

    @property
    def raw(self) -> tasks_pb2.TaskLeg:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskLeg)


@dataclass(frozen=True)
class TaskPlan(Value):
    """Where and when a task runs, and how its data get there. It holds nothing."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskPlan

    digest: str = ""
    """SHA-256 over the segments, in hexadecimal."""
    planner: str = ""
    """The planner that made the plan."""
    cluster: str = ""
    """The site at which the task runs."""
    cpus: int = 0
    """CPUs taken at that site."""
    run: Window = field(kw_only=True)
    """When the CPUs are taken."""
    legs: Sequence[TaskLeg] = ()
    """The route of the data, in order. Empty when the data are at the cluster already."""
    departure: datetime = field(kw_only=True)
    """When the data begin to leave the source."""
    arrival: datetime = field(kw_only=True)
    """When the last data are at the cluster."""
    delay_us: int | None = None
    """How long the data travel, in whole slots. In microseconds."""
    proven_optimal: bool = False
    """True: no plan on this picture is better by the objective. Only "mc-t" proves that."""
    legs_looked_at: int = 0
    """Number of legs, from the first on, that the planner found free. The planner did not look
    at the other legs.
    """
    output_legs: Sequence[TaskLeg] = ()
    """The route of the results, with `output`."""
    delivered: datetime | None = None
    """When the last results have arrived. Unset without `output`."""
    segments: Sequence[Segment] = ()
    """What has to be held, and at which resource manager. Each segment has a window of its own."""

    @property
    def raw(self) -> tasks_pb2.TaskPlan:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskPlan)


@dataclass(frozen=True)
class TaskEffort(Value):
    """The effort of a planner, counted as in the papers."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskEffort

    operations: int = 0
    """Additions, Boolean operations and comparisons of single entries of vectors."""
    paths: int = 0
    """Number of paths that no other path dominates."""
    tried: int = 0
    """Number of paths that the planner looked at."""

    @property
    def raw(self) -> tasks_pb2.TaskEffort:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskEffort)


@dataclass(frozen=True)
class TaskPlanResponse(Value):
    """What a planner answers for a task."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskPlanResponse

    plans: Sequence[TaskPlan] = ()
    """The plans, best first. No two have the same path and cluster. Empty: see `refusal`."""
    refusal: Refusal | None = None
    """Why there is no plan."""
    nearest: TaskPlan | None = None
    """What this planner would do if there were no deadline. Unset when there are plans, or when
    there would be none without the deadline either.
    """
    effort: TaskEffort | None = None
    """What the planning took."""

    @property
    def raw(self) -> tasks_pb2.TaskPlanResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskPlanResponse)


@dataclass(frozen=True)
class TaskReceipt(Value):
    """The outcome of a submitted task."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskReceipt

    reservation: str = ""
    """The id of the reservation. It can be shown, listed and released like any other. Empty when
    the task was refused before it became a reservation.
    """
    request_id: str = ""
    """The client's id of the task."""
    confirmed: bool = False
    """True: booked at every resource manager, durably."""
    plan: TaskPlan | None = None
    """The plan that is booked, or the last one that was tried. Unset: there was none."""
    refusal: Refusal | None = None
    """Why the task is not booked."""
    nearest: TaskPlan | None = None
    """What could be done if there were no deadline, when no plan was found with it."""
    tries: Sequence[TaskTry] = ()
    """Every try that failed, in order. If the task is not booked, the reason of the last one is
    also `refusal`.
    """
    effort: TaskEffort | None = None
    """What the last planning took."""
    definite: bool = False
    """True: this outcome will not change by itself."""

    @property
    def raw(self) -> tasks_pb2.TaskReceipt:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskReceipt)


@dataclass(frozen=True)
class TaskTry(Value):
    """One try that failed."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.TaskTry

    resource_manager: str = ""
    """The resource manager that refused. Empty: no plan was found."""
    refusal: Refusal = field(kw_only=True)
    """Why it failed."""
    age_us: int | None = None
    """How old the picture of that resource was when the task was planned. Unset: no resource
    manager refused. In microseconds.
    """

    @property
    def raw(self) -> tasks_pb2.TaskTry:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.TaskTry)


@dataclass(frozen=True)
class ReadPictureResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.ReadPictureResponse

    mode: str = ""
    """What this coordinator plans tasks on: "central" or "distributed"."""
    at: datetime | None = None
    """When the picture was read."""
    parts: Sequence[PicturePart] = ()
    """Every resource manager's part of the picture."""

    @property
    def raw(self) -> tasks_pb2.ReadPictureResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.ReadPictureResponse)


@dataclass(frozen=True)
class PicturePart(Value):
    """The picture of one resource manager's profiles."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.PicturePart

    resource_manager: str = ""
    """The resource manager whose profiles these are."""
    age_us: int | None = None
    """Time since the resource manager made its latest update that arrived here. Unset: none has
    arrived yet. In microseconds.
    """
    revision: int = 0
    """The revision of this part of the picture."""
    updates: int = 0
    """Number of updates that were merged."""
    bytes: int = 0
    """Size in bytes of these updates as messages."""
    ignored: int = 0
    """Number of updates that were ignored (gaps, replays, wrong epochs, more free than there
    is).
    """
    vectors: Sequence[PictureVector] = ()
    """One entry for each of its resources."""

    @property
    def raw(self) -> tasks_pb2.PicturePart:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.PicturePart)


@dataclass(frozen=True)
class PictureVector(Value):
    """When one amount of one resource is believed to be free."""

    _message_type: ClassVar[type[Message]] = tasks_pb2.PictureVector

    resource: str = ""
    """Name of the resource."""
    free: str = ""
    """One character for each slot: "1" if the amount is free throughout the slot, otherwise "0"."""

    @property
    def raw(self) -> tasks_pb2.PictureVector:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(tasks_pb2.PictureVector)
