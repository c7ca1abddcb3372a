"""What a failed call says: the code, the text, and the details that a coordinator adds for programs (`google.rpc`).

Left out: what to do after it (`coalloc._exchange`). Source: the details are those of net/src/status.rs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.protobuf.message import DecodeError, Message

from coalloc import coalloc_details_pb2 as wire
from coalloc._value import to_us

# The domain of the reasons that coordinators give.
_DOMAIN = "coalloc"
# The trailer in which gRPC has the details.
DETAILS_TRAILER = "grpc-status-details-bin"


@dataclass(frozen=True)
class FieldProblem:
    """A field of a request that the coordinator does not accept."""

    field: str
    """The field, as the schema names it: `sites[0].cpus`."""
    problem: str
    """Its value and what is allowed, in a sentence."""


@dataclass(frozen=True)
class Details:
    """The details of a failed call; empty when a transport and not a coordinator has ended it."""

    reason: str = ""
    """The reason for programs, such as STANDBY. Empty: no coordinator gave one."""
    about: dict[str, str] = field(default_factory=dict)
    """What the reason is about."""
    fields: tuple[FieldProblem, ...] = ()
    """The fields that are not accepted."""
    retry_after_us: int | None = None
    """When to send the call again, in microseconds from now. None: the coordinator does not say."""
    kind: str = ""
    """The kind of thing that is missing or in the way: `reservation`."""
    name: str = ""
    """Its name."""


def read_details(trailer: bytes | None) -> Details:
    """Reads the trailer. Bytes that cannot be read say nothing."""
    if not trailer:
        return Details()
    reason, kind, name = "", "", ""
    about: dict[str, str] = {}
    fields: tuple[FieldProblem, ...] = ()
    after: int | None = None
    try:
        status = wire.Status.FromString(trailer)
        for packed in status.details:
            what = packed.type_url.rpartition(".")[2]
            if what == "ErrorInfo":
                info = wire.ErrorInfo.FromString(packed.value)
                if info.domain == _DOMAIN:
                    reason, about = info.reason, dict(info.metadata)
            elif what == "BadRequest":
                fields = _problems(wire.BadRequest.FromString(packed.value))
            elif what == "RetryInfo":
                after = to_us(wire.RetryInfo.FromString(packed.value).retry_delay)
            elif what == "ResourceInfo":
                resource = wire.ResourceInfo.FromString(packed.value)
                kind, name = resource.resource_type, resource.resource_name
    except DecodeError:
        return Details()
    return Details(reason, about, fields, after, kind, name)


def _problems(bad: wire.BadRequest) -> tuple[FieldProblem, ...]:
    # Paths begin at the message of the call; whoever made the request knows it as the whole.
    return tuple(
        FieldProblem(one.field.removeprefix("request."), one.description)
        for one in bad.field_violations
    )


def write_details(*details: Message) -> bytes:
    """The trailer with these details; for tests of what clients make of it."""
    status = wire.Status()
    for one in details:
        packed = status.details.add()
        packed.type_url = f"type.googleapis.com/google.rpc.{one.DESCRIPTOR.name}"
        packed.value = one.SerializeToString()
    return status.SerializeToString()
