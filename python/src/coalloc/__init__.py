"""Reserve computers and bandwidth together, in advance, across domains: the Python client of Coalloc.

Values are frozen dataclasses with the names of the schema. Instants are datetimes with a time zone; all other numbers are integers
in the unit that their name or its text says (`_bps` is bit/s, `_us` is microseconds). `raw` of every value is the message itself.

Left out: what coordinators and resource managers do (see the guide of Coalloc).
"""

from coalloc._details import FieldProblem
from coalloc._tables import AvailabilityRow, AvailabilityTable
from coalloc._value import MissingField
from coalloc.aio import AsyncClient, AsyncReservations, AsyncWatch
from coalloc.client import Client, Reservations, Watch
from coalloc.errors import (
    Busy,
    CallFailed,
    CoallocError,
    Indefinite,
    InvalidRequest,
    NotAllowed,
    NotFound,
    NotNow,
    OtherContent,
    Refused,
    Unreachable,
    Unsupported,
)
from coalloc.messages import *  # noqa: F403
from coalloc.messages import __all__ as _messages
from coalloc.timelines import Timeline, timeline_of
from coalloc.units import gbps, hours, mbps, microseconds, minutes, seconds

__all__ = [
    "AsyncClient",
    "AsyncReservations",
    "AsyncWatch",
    "AvailabilityRow",
    "AvailabilityTable",
    "Busy",
    "CallFailed",
    "Client",
    "CoallocError",
    "FieldProblem",
    "Indefinite",
    "InvalidRequest",
    "MissingField",
    "NotAllowed",
    "NotFound",
    "NotNow",
    "OtherContent",
    "Refused",
    "Reservations",
    "Timeline",
    "Unreachable",
    "Unsupported",
    "Watch",
    "gbps",
    "hours",
    "mbps",
    "microseconds",
    "minutes",
    "seconds",
    "timeline_of",
]
__all__ += _messages
