"""What a client does, as a program without a transport: a generator that yields steps and is sent their outcomes.

The two clients only carry out steps, one by waiting and the other by awaiting, so everything that is decided is decided once.
A program reads no clock: every outcome says when it came.

Left out: the programs themselves (`coalloc._exchange`, `coalloc._calls`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from coalloc._details import Details

T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """Make a call at the address that leads, as far as is known. Outcome: `Answer` or `Failed`."""

    path: str
    """`/coalloc.v1.Coordinator/Reserve`."""
    message: Message
    answer: type[Message]
    needs: tuple[str, ...] = ()
    """What the receiver must know to carry it out as it is meant (`coalloc-needs`)."""


@dataclass(frozen=True)
class Open:
    """Begin a stream of answers. Outcome: `Nothing`; a failure comes with the first `Next`."""

    call: Call


@dataclass(frozen=True)
class Next:
    """Wait for the next answer of the stream. Outcome: `Answer` or `Failed`; also when the server ends the stream."""


@dataclass(frozen=True)
class Pause:
    """Wait. Outcome: `Nothing`."""

    seconds: float


@dataclass(frozen=True)
class MoveOn:
    """Connect anew, and to the next address if there are several, unless another call has done so since. Outcome: `Nothing`."""

    connection: int
    """The number of the connection on which a call failed."""


@dataclass(frozen=True)
class Ready:
    """The stream has begun: nothing that happens from here on is missed. Outcome: `Nothing`."""


@dataclass(frozen=True)
class Emit:
    """Hand an item to whoever iterates. Outcome: `Nothing`."""

    item: object


Step = Call | Open | Next | Pause | MoveOn | Ready | Emit


@dataclass(frozen=True)
class Answer:
    """A call was answered."""

    message: Message
    at_s: float
    """When, by a clock that never goes back, in seconds."""


@dataclass(frozen=True)
class Failed:
    """A call was not answered."""

    code: str
    """The name of the gRPC code: UNAVAILABLE."""
    text: str
    details: Details
    connection: int
    """The number of the connection, which rises with each that is made."""
    at_s: float
    """When, by the same clock."""


@dataclass(frozen=True)
class Nothing:
    """A step without an outcome was carried out."""

    at_s: float


Outcome = Answer | Failed | Nothing
Program = Generator[Step, Outcome, T]
