"""Generated from coalloc/v1/workflows.proto by tools/generate.py: change the schema, not this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from google.protobuf.message import Message

from coalloc._value import OpenEnum, Value
from coalloc.messages.types import KindAmount, Refusal, Segment, Window
from coalloc.v1 import workflows_pb2


class ActivityProgress(OpenEnum):
    """How far an activity of a booked workflow is."""

    UNSPECIFIED = 0
    """Not set."""
    WAITING = 1
    """Its window has not begun."""
    RUNNING = 2
    """It runs: it was reported to have begun, or its window has begun and nobody has reported
    anything else.
    """
    FINISHED = 3
    """It has ended: that was reported, or its window is over and nobody has reported anything
    else.
    """
    FAILED = 4
    """It was reported to have failed, and was not placed again since."""


class RevisionState(OpenEnum):
    """How far a revision is."""

    UNSPECIFIED = 0
    """Not set."""
    NOTHING = 1
    """Nothing is to be changed."""
    PLANNED = 2
    """It was planned, and nothing was reserved or changed: that is what was asked for."""
    UNDER_WAY = 3
    """It is being planned, or reserved. Ask again with GetWorkflow."""
    DONE = 4
    """The new version is booked at every resource manager, durably."""
    REFUSED = 5
    """The version that was booked stays as it was."""


class ActivityEvent(OpenEnum):
    """What happened to an activity."""

    UNSPECIFIED = 0
    """Not set."""
    STARTED = 1
    """It has begun."""
    FINISHED = 2
    """It has ended, and all its data are there. What it no longer needs is given back."""
    FAILED = 3
    """It has failed. It, its synchronous set and all that needs its data are placed anew."""
    NEEDS_UNTIL = 4
    """It runs until `until`: its window becomes longer or shorter, and what needs its data is
    moved if it must be.
    """


@dataclass(frozen=True)
class Workflow(Value):
    """A workflow as a user requests it: the content of a workflow file. A value out of its range
    is INVALID_ARGUMENT, and the answer names the field, the value and what is allowed.
    """

    _message_type: ClassVar[type[Message]] = workflows_pb2.Workflow

    activities: Sequence[WorkflowActivity] = ()
    """The activities, 1 to 4,096."""
    data: Sequence[WorkflowData] = ()
    """The data items. All their `to` together have at most 16,384 entries."""
    sync_sets: Sequence[ActivitySet] = ()
    """Sets of activities that start and end at the same time. Sets that overlap are one set.
    Such a set has at most 32 activities and 128 channels.
    """
    channels: Sequence[WorkflowChannel] = ()
    """Connections between activities of one synchronous set, for as long as the set runs."""
    same_site: Sequence[ActivitySet] = ()
    """Sets of activities that run at one site, whichever it is."""
    ready: datetime | None = None
    """Nothing may happen before this instant. Unset: as soon as the coordinator can."""
    deadline: datetime | None = None
    """Everything has ended by then. Later than `ready`, by at most 366 days. Unset: 7 days after
    `ready`.
    """
    user: str = ""
    """The user whose workflow it is. Empty: the caller, if it has proven to be a user, or else
    "anonymous".
    """

    @property
    def raw(self) -> workflows_pb2.Workflow:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.Workflow)


@dataclass(frozen=True)
class WorkflowActivity(Value):
    """One activity: an amount of resources of one site for the duration of its work. Exactly one
    of `load_mi`, `duration` and `durations` is set; none or two of them are INVALID_ARGUMENT.
    """

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowActivity

    name: str = ""
    """Unique among the activities. A name has 1 to 128 of the characters A-Z a-z 0-9 . _ - : /
    and begins with a letter or a digit.
    """
    load_mi: int | None = None
    """Work for each of the CPUs, in million instructions, 1 to 2^50. The duration is the work
    divided by the speed (`mips`) of the site's CPUs, and is rounded up to whole seconds.
    """
    duration_us: int | None = None
    """The duration at every site, 1 s to 366 days. In microseconds."""
    durations: Sequence[SiteDuration] = ()
    """A duration for each site, 1 s to 366 days. The activity runs at no other site."""
    cpus: int | None = None
    """CPUs that it needs all the time, 1 to 10,000,000. Unset: 1. Zero is INVALID_ARGUMENT."""
    others: Sequence[KindAmount] = ()
    """What it needs at the same site besides CPUs, each kind at most once."""
    sites: Sequence[str] = ()
    """The sites at which it may run. Empty: every site. An unknown site is INVALID_ARGUMENT."""
    excluded: Sequence[str] = ()
    """The sites at which it must not run. An unknown site is INVALID_ARGUMENT, and so is one
    that is in `sites`.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowActivity:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowActivity)


@dataclass(frozen=True)
class SiteDuration(Value):
    """How long an activity runs at one site."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.SiteDuration

    site: str = ""
    """The site. An unknown site is INVALID_ARGUMENT, and so is one that is there twice."""
    duration_us: int | None = None
    """The duration there, 1 s to 366 days. Required. In microseconds."""

    @property
    def raw(self) -> workflows_pb2.SiteDuration:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.SiteDuration)


@dataclass(frozen=True)
class WorkflowData(Value):
    """One data item. Every activity that needs it starts after it has arrived. It travels once
    to each site at which it is needed; within a site nothing is sent.
    """

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowData

    name: str = ""
    """Unique among the data items; a name like that of an activity."""
    bytes: int = 0
    """Its size in bytes, 0 to 2^50. With 0 it only orders activities: nothing travels."""
    from_: str = ""
    """The activity that produces it; it is there when that activity ends. Exactly one of `from`
    and `from_site` is set; none or both are INVALID_ARGUMENT.
    """
    from_site: str = ""
    """The site or exchange point at which it is from the beginning."""
    to: Sequence[str] = ()
    """The activities that need it, at least one, none of them in a synchronous set with `from`.
    An unknown name is INVALID_ARGUMENT.
    """
    rate_bps: int | None = None
    """The rate at which it travels, 1 to 10^15 bit/s. Zero is INVALID_ARGUMENT. Unset: the best
    of 1, 1/2, 1/4 and 1/8 of what the widest route can carry.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowData:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowData)


@dataclass(frozen=True)
class ActivitySet(Value):
    """Two or more activities."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.ActivitySet

    activities: Sequence[str] = ()
    """Their names, each once. An unknown name is INVALID_ARGUMENT."""

    @property
    def raw(self) -> workflows_pb2.ActivitySet:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.ActivitySet)


@dataclass(frozen=True)
class WorkflowChannel(Value):
    """A connection from one activity of a synchronous set to another one of the same set. It
    takes bandwidth only if the two run at different sites.
    """

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowChannel

    from_: str = ""
    """The activity at which it starts."""
    to: str = ""
    """The activity at which it ends, another one."""
    bandwidth_bps: int = 0
    """Rate in bit/s, 1 to 10^15."""
    max_latency_us: int | None = None
    """Largest allowed sum of the latencies of the paths on its route, 0 s to 10 s. Unset: any.
    In microseconds.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowChannel:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowChannel)


@dataclass(frozen=True)
class WorkflowOptions(Value):
    """How a workflow is planned. All fields may be unset."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowOptions

    planner: str | None = None
    """The planner: "heft-sync-bt" (each synchronous set where it ends first; moves earlier
    activities for a deadline), "heft-sync-along" (greedy; a synchronous set goes on along
    time until it fits), "heft-sync" (greedy; a synchronous set has one window to fit in),
    "heft-sync-bt-printed" (backtracking as the paper prints it; exponential, for comparison).
    Unset: "heft-sync-bt". Any other name is INVALID_ARGUMENT.
    """
    max_paths_per_route: int | None = None
    """The most paths on one route, 1 to 16. Unset: 4."""
    discrepancies: int | None = None
    """How often a planner that goes back may give an earlier activity its next site because a
    later one misses the deadline, 0 to 8. Unset: 2. Planners that do not go back ignore it.
    """
    tries: int | None = None
    """How many times the workflow may be planned, 1 to 16. Unset: 4. A plan that is not
    submitted is made once.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowOptions:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowOptions)


@dataclass(frozen=True)
class WorkflowPlan(Value):
    """Where and when everything of a workflow happens. All windows are multiples of a second."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowPlan

    digest: str = ""
    """SHA-256 over the segments, in hexadecimal."""
    planner: str = ""
    """The planner that made the plan."""
    window: Window = field(kw_only=True)
    """From the start of the first activity or transfer to the end of the last activity."""
    makespan_us: int | None = None
    """Time from `ready` to the end of the last activity. In microseconds."""
    summary: WorkflowSummary | None = None
    """What it takes, in numbers."""
    activities: Sequence[PlannedActivity] = ()
    """Each activity, in the order of the workflow."""
    transfers: Sequence[PlannedTransfer] = ()
    """The journeys of data items, in the order in which they were planned."""
    channels: Sequence[PlannedChannel] = ()
    """Each channel, in the order of the workflow."""
    merged: Sequence[MergedSets] = ()
    """Synchronous sets that overlap and therefore are one set."""
    critical_path: Sequence[CriticalStep] = ()
    """What the end of the plan waits for, from the first step to the last activity."""
    segments: Sequence[Segment] = ()
    """What has to be held, and at which resource manager. Each segment has a window of its own,
    and segments of one resource may overlap.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowPlan:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowPlan)


@dataclass(frozen=True)
class WorkflowSummary(Value):
    """A workflow's plan in numbers."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowSummary

    activities: int = 0
    """Number of activities."""
    transfers: int = 0
    """Number of journeys of data items between sites."""
    channels: int = 0
    """Number of channels between sites."""
    segments: Sequence[SegmentCount] = ()
    """Number of segments for each resource manager, by name."""
    sites: Sequence[str] = ()
    """The sites at which activities run, by name."""

    @property
    def raw(self) -> workflows_pb2.WorkflowSummary:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowSummary)


@dataclass(frozen=True)
class SegmentCount(Value):
    """How many segments a plan has at one resource manager."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.SegmentCount

    resource_manager: str = ""
    """Name of the resource manager."""
    segments: int = 0
    """Number of segments, 1 to 4,096: they travel in one Hold."""

    @property
    def raw(self) -> workflows_pb2.SegmentCount:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.SegmentCount)


@dataclass(frozen=True)
class PlannedActivity(Value):
    """Where and when one activity runs."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.PlannedActivity

    name: str = ""
    """Name of the activity."""
    site: str = ""
    """The site."""
    cpus: int = 0
    """CPUs taken at that site."""
    others: Sequence[KindAmount] = ()
    """What is taken at that site besides CPUs."""
    window: Window = field(kw_only=True)
    """When it is taken; for an activity of a synchronous set the window of the whole set."""
    in_sync_set: bool = False
    """True: it runs at the same time as the other activities of a synchronous set."""
    progress: ActivityProgress = ActivityProgress.UNSPECIFIED
    """How far it is. Only GetWorkflow says this, and only of a workflow that is booked."""
    reported: bool = False
    """True: `progress` follows from reports. False: it follows from the clock alone."""

    @property
    def raw(self) -> workflows_pb2.PlannedActivity:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.PlannedActivity)


@dataclass(frozen=True)
class PlannedTransfer(Value):
    """One journey of a data item."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.PlannedTransfer

    data: str = ""
    """Name of the data item."""
    from_: str = ""
    """Where it comes from."""
    to: str = ""
    """Where it is needed."""
    paths: Sequence[str] = ()
    """The paths that it takes, in order."""
    rate_bps: int = 0
    """The rate that is taken on each path, in bit/s."""
    window: Window = field(kw_only=True)
    """When it travels."""

    @property
    def raw(self) -> workflows_pb2.PlannedTransfer:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.PlannedTransfer)


@dataclass(frozen=True)
class PlannedChannel(Value):
    """The route of one channel."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.PlannedChannel

    from_: str = ""
    """The activity at which it starts."""
    to: str = ""
    """The activity at which it ends."""
    bandwidth_bps: int = 0
    """Rate in bit/s."""
    paths: Sequence[str] = ()
    """The paths that it takes, in order. Empty: both activities run at one site."""
    window: Window = field(kw_only=True)
    """When the paths are taken: the window of the synchronous set."""

    @property
    def raw(self) -> workflows_pb2.PlannedChannel:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.PlannedChannel)


@dataclass(frozen=True)
class MergedSets(Value):
    """Synchronous sets of a workflow that overlap and therefore are one set."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.MergedSets

    sync_sets: Sequence[int] = ()
    """Their places in `sync_sets`, from 0."""
    activities: Sequence[str] = ()
    """The activities of all of them, in the order of the workflow."""

    @property
    def raw(self) -> workflows_pb2.MergedSets:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.MergedSets)


@dataclass(frozen=True)
class CriticalStep(Value):
    """One step of a critical path. Exactly one of `activity` and `data` is not empty."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.CriticalStep

    activity: str = ""
    """Name of an activity that runs."""
    data: str = ""
    """Name of a data item that travels."""
    site: str = ""
    """The site at which the activity runs, or at which the data arrive."""
    window: Window = field(kw_only=True)
    """When."""

    @property
    def raw(self) -> workflows_pb2.CriticalStep:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.CriticalStep)


@dataclass(frozen=True)
class WorkflowEffort(Value):
    """How much work a plan took."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowEffort

    placements: int = 0
    """Placements of activities and of whole sets that were tried."""
    frames: int = 0
    """Windows of synchronous sets that were tried."""

    @property
    def raw(self) -> workflows_pb2.WorkflowEffort:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowEffort)


@dataclass(frozen=True)
class WorkflowRefusal(Value):
    """Why a workflow has no plan."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowRefusal

    activities: Sequence[str] = ()
    """The activities at which planning failed: one, or all of a synchronous set. Empty: no
    particular activity.
    """
    refusal: Refusal | None = None
    """What binds there."""
    earliest_finish: datetime | None = None
    """When these activities could end, if the deadline were later. Unset: never, or it is not
    known.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowRefusal:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowRefusal)


@dataclass(frozen=True)
class PlanWorkflowResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.PlanWorkflowResponse

    plan: WorkflowPlan | None = None
    """The plan. It holds nothing. Unset: see `refusal`."""
    refusal: WorkflowRefusal | None = None
    """Why there is no plan."""
    effort: WorkflowEffort | None = None
    """What the planning took."""

    @property
    def raw(self) -> workflows_pb2.PlanWorkflowResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.PlanWorkflowResponse)


@dataclass(frozen=True)
class WorkflowReceipt(Value):
    """The outcome of a submitted workflow."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowReceipt

    reservation: str = ""
    """The id of the reservation. It can be shown, listed and released like any other. Empty when
    the workflow was refused before it became a reservation.
    """
    request_id: str = ""
    """The client's id of the workflow."""
    confirmed: bool = False
    """True: booked at every resource manager, durably. False again after a release."""
    plan: WorkflowPlan | None = None
    """One page of the plan that is booked, or of the last one that was tried. Its activities,
    transfers, channels and segments are those of this page; its other fields are on the first
    page only. Unset: there was none.
    """
    refusal: WorkflowRefusal | None = None
    """Why the workflow is not booked."""
    tries: Sequence[Refusal] = ()
    """Every try that a resource manager refused, in order."""
    effort: WorkflowEffort | None = None
    """What the last planning took."""
    definite: bool = False
    """True: this outcome will not change by itself."""
    version: int = 0
    """The number of the version that is booked: 1 when it is submitted, and one more after each
    revision. 0: none is.
    """
    revision: WorkflowRevision | None = None
    """What came of the last revision. Unset: there was none."""

    @property
    def raw(self) -> workflows_pb2.WorkflowReceipt:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowReceipt)


@dataclass(frozen=True)
class WorkflowRevision(Value):
    """What came of a revision of a workflow."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.WorkflowRevision

    state: RevisionState = RevisionState.UNSPECIFIED
    """How far it is."""
    change_id: str = ""
    """The id of the change: the client's own, or one that begins with "reports-" for a revision
    that follows reports. Empty: no change was made.
    """
    moved: Sequence[str] = ()
    """The activities that are placed anew, in the order of the workflow."""
    resized: Sequence[str] = ()
    """The activities that stay and end earlier or later than before."""
    refusal: WorkflowRefusal | None = None
    """Why it was refused: what binds, or which deadline would be missed and by how much. The
    version that was booked stays.
    """

    @property
    def raw(self) -> workflows_pb2.WorkflowRevision:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.WorkflowRevision)


@dataclass(frozen=True)
class ReportActivityResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.ReportActivityResponse

    reservation: str = ""
    """The id of the reservation. The report is recorded, durably, whatever comes of it."""
    revision: WorkflowRevision | None = None
    """What came of this report and of all earlier ones."""
    version: int = 0
    """The number of the version that is booked."""

    @property
    def raw(self) -> workflows_pb2.ReportActivityResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.ReportActivityResponse)


@dataclass(frozen=True)
class ReviseWorkflowResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = workflows_pb2.ReviseWorkflowResponse

    revision: WorkflowRevision | None = None
    """What came of it."""
    workflow: WorkflowReceipt | None = None
    """The workflow, with the first page of the plan that is booked; with `plan_only`, of the
    plan that would be.
    """
    next_page_token: str = ""
    """The token of the next page for GetWorkflow. Empty: the plan is whole. Always empty with
    `plan_only`.
    """

    @property
    def raw(self) -> workflows_pb2.ReviseWorkflowResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(workflows_pb2.ReviseWorkflowResponse)
