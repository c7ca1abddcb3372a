"""Requests that have no value of their own: keyword arguments to messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

from coalloc._calls import stamp_or_not
from coalloc.messages import ActivityEvent
from coalloc.v1 import workflows_pb2


def report_message(
    id: str,
    activity: str,
    event: ActivityEvent,
    report_id: str,
    user: str,
    until: datetime | None,
    time: datetime | None,
    excluded: Sequence[str],
) -> workflows_pb2.ReportActivityRequest:
    """What happened to an activity."""
    return workflows_pb2.ReportActivityRequest(
        id=id,
        report_id=report_id,
        user=user,
        activity=activity,
        event=cast(Any, int(event)),
        excluded=excluded,
        **stamp_or_not(until=until, time=time),
    )


def revision_message(
    id: str,
    change_id: str,
    user: str,
    excluded: Sequence[str],
    again: Sequence[str],
    deadline: datetime | None,
    plan_only: bool,
) -> workflows_pb2.ReviseWorkflowRequest:
    """How a workflow is to be revised."""
    return workflows_pb2.ReviseWorkflowRequest(
        id=id,
        change_id=change_id,
        user=user,
        excluded=excluded,
        again=again,
        plan_only=plan_only,
        **stamp_or_not(deadline=deadline),
    )
