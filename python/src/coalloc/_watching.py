"""A watch that goes on where it broke off.

Left out: what an event means. Source: docs/guide/watch.md.
"""

from __future__ import annotations

from typing import cast

from coalloc._calls import call
from coalloc._exchange import Patience, error_of, given_up, pause_after
from coalloc._program import Answer, Emit, Failed, MoveOn, Next, Open, Pause, Program, Ready
from coalloc._value import from_message
from coalloc.messages import ReservationEvent
from coalloc.v1 import coordinator_pb2 as wire


class WatchPosition:
    """How far a watch has come."""

    def __init__(self, resume_token: str) -> None:
        self.resume_token = resume_token
        """A watch with this token goes on after the last event that was handed out."""


def watch(id: str, user: str, position: WatchPosition, patience: Patience) -> Program[None]:
    """Emits events for ever, and `Ready` before them.

    Raises:
        coalloc.errors.CoallocError: the watch was turned away, or nobody has answered for as long as the patience lasts.
    """
    first_failure_s: float | None = None
    is_ready = False
    while True:
        message = wire.WatchRequest(resume_token=position.resume_token, id=id, user=user)
        yield Open(call("Watch", message, wire.WatchResponse))
        while isinstance(outcome := (yield Next()), Answer):
            first_failure_s = None
            said = cast(wire.WatchResponse, outcome.message)
            if said.HasField("event"):
                if not is_ready:
                    is_ready = True
                    yield Ready()
                event = from_message(ReservationEvent, said.event)
                position.resume_token = event.resume_token
                yield Emit(event)
            else:
                position.resume_token = said.progress.resume_token or position.resume_token
                if not is_ready:
                    is_ready = True
                    yield Ready()
        if not isinstance(outcome, Failed):
            raise TypeError(f"a stream has the outcome {outcome}")
        pause_s = pause_after(outcome)
        if pause_s is None and outcome.code != "RESOURCE_EXHAUSTED":
            raise error_of(outcome)
        if first_failure_s is None:
            first_failure_s = outcome.at_s
        pause_s = pause_s or 1.0
        if patience.seconds - (outcome.at_s - first_failure_s) <= pause_s:
            raise given_up(outcome, None, is_unknown=False)
        if outcome.code != "RESOURCE_EXHAUSTED":
            yield MoveOn(outcome.connection)
        yield Pause(pause_s)
