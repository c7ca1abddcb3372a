"""One call, made again until its outcome is known: what follows from each error.

A call that changes something carries an id, so sending it again does nothing twice (I8 of the protocol). Whatever a transport can
say leaves the outcome unknown, so the call is made again with the same content: at the next address if there are several, and for
a bounded time.

Left out: what the answers mean (`coalloc._calls`). Source: net/src/status.rs and cli/src/kit/leader_channel.rs.
"""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message

from coalloc import errors
from coalloc._program import Answer, Call, Failed, MoveOn, Pause, Program

# Between two tries, in seconds.
_PAUSE_S = 0.2
# Codes with which the receiver has turned the call away.
_REJECTED = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "UNIMPLEMENTED",
    "FAILED_PRECONDITION",
}
# Reasons of a coordinator that say that nothing was done.
_NOTHING_DONE = {
    "STANDBY",
    "STOPPING",
    "BROKEN_OFF",
    "NOT_KNOWN_YET",
    "BUSY",
    "TOO_MANY_CALLS",
    "DISK_FULL",
}
# How gRPC begins to say that there was no connection, so that nothing was sent.
_NO_CONNECTION = "failed to connect to all addresses"


@dataclass(frozen=True)
class Change:
    """What a call changes, so that its outcome can be looked up."""

    id: str
    """With which the outcome is found."""
    look: str
    """The call to make for it."""


@dataclass(frozen=True)
class Patience:
    """For how long a call is made again after it first failed, in seconds."""

    seconds: float = 30.0


def is_nothing_done(failed: Failed) -> bool:
    """Whether it is certain that this try of a call had no effect."""
    return failed.details.reason in _NOTHING_DONE or failed.text.startswith(_NO_CONNECTION)


def error_of(failed: Failed) -> errors.CoallocError:
    """The error of a call that was turned away."""
    text, details = failed.text, failed.details
    match failed.code:
        case "INVALID_ARGUMENT":
            return errors.InvalidRequest(text, details.fields)
        case "NOT_FOUND":
            return errors.NotFound(text, details.kind, details.name)
        case "ALREADY_EXISTS":
            hint = "times relative to now make the content different each time"
            return errors.OtherContent(f"{text} ({hint})")
        case "PERMISSION_DENIED" | "UNAUTHENTICATED":
            return errors.NotAllowed(f"{text}; say who you are with certs= or token=")
        case "UNIMPLEMENTED":
            return errors.Unsupported(text)
        case "FAILED_PRECONDITION":
            return errors.NotNow(text)
        case "RESOURCE_EXHAUSTED":
            return errors.Busy(text, details.retry_after_us)
    return errors.CallFailed(f"the call failed: {failed.code}: {text}", failed.code)


def pause_after(failed: Failed) -> float | None:
    """How long to wait before the call is made again, in seconds. None: it is final."""
    reason, after_us = failed.details.reason, failed.details.retry_after_us
    if failed.code in _REJECTED or reason == "INTERNAL":
        return None
    if failed.code == "RESOURCE_EXHAUSTED":
        return None if after_us is None else max(_PAUSE_S, after_us / 1e6)
    # Another process, or the same one started again, may answer sooner than the one that failed says.
    return _PAUSE_S


def given_up(failed: Failed, change: Change | None, is_unknown: bool) -> errors.CoallocError:
    """The error when a call is not made again."""
    if is_unknown and change is not None:
        return errors.Indefinite(
            f"the outcome is unknown: {failed.code}: {failed.text}", id=change.id, look=change.look
        )
    if failed.code == "RESOURCE_EXHAUSTED" or failed.details.reason == "INTERNAL":
        return error_of(failed)
    hint = ""
    if any(word in failed.text.lower() for word in ("handshake", "ssl", "certificate", "hostname")):
        hint = (
            "; the TLS connection failed: is the coordinator's domain `domain=`, and does its certificate name this "
            "host (`coalloc certs issue --host`)?"
        )
    return errors.Unreachable(f"no coordinator answers: {failed.code}: {failed.text}{hint}")


def exchange(call: Call, patience: Patience, change: Change | None = None) -> Program[Message]:
    """Makes a call until its outcome is known, or the patience has ended.

    Raises:
        coalloc.errors.CoallocError: the call was turned away, or nobody has answered.
        coalloc.errors.Indefinite: with `change`, when the outcome is unknown.
    """
    first_failure_s: float | None = None
    is_unknown = False
    while True:
        outcome = yield call
        if isinstance(outcome, Answer):
            return outcome.message
        if not isinstance(outcome, Failed):
            raise TypeError(f"a call has the outcome {outcome}")
        if outcome.code in _REJECTED:
            raise error_of(outcome)
        is_unknown = is_unknown or not is_nothing_done(outcome)
        pause_s = pause_after(outcome)
        if first_failure_s is None:
            first_failure_s = outcome.at_s
        left_s = patience.seconds - (outcome.at_s - first_failure_s)
        if pause_s is None or left_s <= pause_s:
            raise given_up(outcome, change, is_unknown)
        if outcome.code != "RESOURCE_EXHAUSTED":
            yield MoveOn(outcome.connection)
        yield Pause(pause_s)
