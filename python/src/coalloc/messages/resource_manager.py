"""Generated from coalloc/v1/resource_manager.proto by tools/generate.py: change the schema, not this."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from google.protobuf.message import Message

from coalloc._value import OpenEnum, Value
from coalloc.messages.types import PriceSchedule, Version, Window
from coalloc.v1 import resource_manager_pb2


class ServerChoice(OpenEnum):
    """Which of the idle servers are taken when there are more than needed."""

    UNSPECIFIED = 0
    """As SERVER_CHOICE_PAPER."""
    PAPER = 1
    """Those that the search finds first: what became idle last (Castillo 2009, section 4.2)."""
    FIRST = 2
    """Those that the site lists first."""
    BEST_FIT = 3
    """Those whose idle period ends soonest after the window; among these, those whose idle
    period began last.
    """
    WORST_FIT = 4
    """The reverse of SERVER_CHOICE_BEST_FIT."""


class ProvisionState(OpenEnum):
    """Whether the user of a booking may use the equipment."""

    UNSPECIFIED = 0
    """Not set."""
    RELEASED = 1
    """It is reserved at the equipment, and the user may not use it."""
    PROVISIONING = 2
    """The user may use it as soon as the equipment has done what it was told."""
    PROVISIONED = 3
    """The user may use it in its window."""
    RELEASING = 4
    """The user may not use it any more, and the equipment has not confirmed that yet."""


@dataclass(frozen=True)
class DescribeResponse(Value):
    """See the schema."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.DescribeResponse

    name: str = ""
    """The name of this resource manager in the federation."""
    domain: str = ""
    """The name of its domain."""
    ledger_id: str = ""
    """Identity of its ledger, 32 hexadecimal digits. It changes when the ledger is replaced."""
    sites: Sequence[Site] = ()
    """The sites of a CRM and their computers."""
    paths: Sequence[Path] = ()
    """The paths of an NRM between end points."""
    horizon_us: int = field(kw_only=True)
    """How far ahead this resource manager accepts reservations. In microseconds."""
    coordinators_below: Sequence[str] = ()
    """Set only by a coordinator that serves its own federation to parent coordinators: its name,
    and the names of all coordinators below it in the tree. A coordinator that finds its own
    name here is in a cycle.
    """
    coordinators: Sequence[str] = ()
    """The coordinators that may hold here, by name. Empty: not stated (releases before this
    field).
    """
    started: datetime | None = None
    """When this resource manager was started, by its own clock. If this differs from an earlier
    answer, the resource manager was restarted and its ledger may have been replaced.
    """
    version: Version | None = None
    """Its release, and what that knows. Unset: a release before this field, which knows `one-
    way`, `replaces`, `keeps-old` and `servers`.
    """
    has_equipment: bool = False
    """True: there is equipment behind the bookings, and WatchEquipment tells of it."""
    equipment: EquipmentReport | None = None
    """What was seen at the last look at the equipment. Only operators and auditors are told;
    unset for everybody else, and where there is no equipment.
    """

    @property
    def raw(self) -> resource_manager_pb2.DescribeResponse:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.DescribeResponse)


@dataclass(frozen=True)
class EquipmentReport(Value):
    """What an operator has to know of the equipment behind a resource manager. Each text is a
    sentence, at most 20 of each kind.
    """

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.EquipmentReport

    trouble: str = ""
    """Why the equipment cannot be looked at. Empty: it can. The other fields are then those of
    the last look that succeeded.
    """
    drift: Sequence[str] = ()
    """What was not as wanted. It is mended."""
    orphans: Sequence[str] = ()
    """The names of what bears the resource manager's name and is wanted by nobody. It is removed
    after 20 s.
    """
    intruders: Sequence[str] = ()
    """What there is of others. It is left alone."""
    unusable: Sequence[str] = ()
    """What cannot be used, such as nodes that are down. Nobody is given it."""

    @property
    def raw(self) -> resource_manager_pb2.EquipmentReport:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.EquipmentReport)


@dataclass(frozen=True)
class Site(Value):
    """A site's computers, as a CRM owns them."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.Site

    name: str = ""
    """Unique in the federation. It is also the name of the resource."""
    cpus: int = 0
    """Capacity in CPUs, 1 to 10,000,000. With `servers` it may be unset; otherwise it must be
    what all servers have together.
    """
    unit_value: int | None = None
    """Points per CPU, 0 to 1,000,000. Unset: 1."""
    quality: int | None = None
    """Quality, 0 to 1,000 (best). Unset: 1,000."""
    price: PriceSchedule | None = None
    """Price per CPU. Unset: that of its inventory, or 0."""
    mips: int | None = None
    """Speed of each CPU in million instructions a second, 1 to 100,000,000. Unset: 25,000."""
    others: Sequence[SiteResource] = ()
    """What the site has besides CPUs, each kind at most once. The resource of a kind is named
    SITE:KIND ("A:storage"). No site may have that name.
    """
    servers: SiteServers | None = None
    """The site's single servers. A by-server site reserves whole servers: a request gets as few
    as have its CPUs together. Unset: the site's CPUs are counted, and nobody knows which ones
    a booking has.
    """

    @property
    def raw(self) -> resource_manager_pb2.Site:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.Site)


@dataclass(frozen=True)
class SiteServers(Value):
    """The servers of one site, which all have the same number of CPUs."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.SiteServers

    cpus_each: int = 0
    """The CPUs of each server, 1 to 10,000,000."""
    groups: Sequence[ServerGroup] = ()
    """Groups of servers with the same properties, in the order in which the site lists its
    servers. All sites of a resource manager have at most 10,000 servers together.
    """

    @property
    def raw(self) -> resource_manager_pb2.SiteServers:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.SiteServers)


@dataclass(frozen=True)
class ServerGroup(Value):
    """Some servers of one site. The whole name of a server is SITE/NAME."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.ServerGroup

    count: int = 0
    """How many servers; their names are their numbers at the site, from 1 on. 0: `names` lists
    them.
    """
    names: Sequence[str] = ()
    """The names of the servers, each once at the site. Only without `count`."""
    properties: Sequence[str] = ()
    """What the servers have in common, by which they can be searched: "gpu", for example."""

    @property
    def raw(self) -> resource_manager_pb2.ServerGroup:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.ServerGroup)


@dataclass(frozen=True)
class SiteResource(Value):
    """What a site has of one further kind of resource."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.SiteResource

    kind: str = ""
    """The word for the kind: "storage" (counted in GB, 10^9 bytes). Any other word is
    INVALID_ARGUMENT; the answer lists the words that there are.
    """
    capacity: int = 0
    """Capacity in the unit of the kind, at least 1. Storage: at most 100,000,000 GB."""
    unit_value: int | None = None
    """Points per unit, 0 to 1,000,000. Unset: 1."""

    @property
    def raw(self) -> resource_manager_pb2.SiteResource:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.SiteResource)


@dataclass(frozen=True)
class Path(Value):
    """A path between two end points, as an NRM owns it. What is inside the path is not
    disclosed.
    """

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.Path

    name: str = ""
    """Unique in the federation. It is also the name of the resource. A full-duplex path has two
    resources, named NAME:ab and NAME:ba.
    """
    a: str = ""
    """One end point: a site or an exchange point. A name that is not a site becomes an exchange
    point.
    """
    b: str = ""
    """The other end point; not the same as `a`."""
    capacity_bps: int = 0
    """Capacity in bit/s, 1 to 10^15."""
    unit_value: int | None = None
    """Points per Gbit/s, 0 to 1,000,000. Unset: 1."""
    latency_us: int | None = None
    """One-way latency, 0 s to 10 s. Unset: 0 s. In microseconds."""
    full_duplex: bool = False
    """True: each direction has the whole capacity. Default: both directions share it."""
    quality: int | None = None
    """Quality, 0 to 1,000 (best). Unset: 1,000."""
    price: PriceSchedule | None = None
    """Price per Gbit/s. Unset: that of its inventory, or 0."""

    @property
    def raw(self) -> resource_manager_pb2.Path:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.Path)


@dataclass(frozen=True)
class GrantedServers(Value):
    """The servers that a hold or booking has at one by-server site over one window."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.GrantedServers

    site: str = ""
    """The name of the site."""
    window: Window | None = None
    """The window."""
    servers: Sequence[str] = ()
    """The whole names of the servers."""
    resource_manager: str = ""
    """The resource manager of the site. Empty in the resource manager's own answers."""

    @property
    def raw(self) -> resource_manager_pb2.GrantedServers:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.GrantedServers)


@dataclass(frozen=True)
class DataPlane(Value):
    """How far a booking is at real equipment: the state of its data plane, in the words of NSI
    Connection Service 2.1.
    """

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.DataPlane

    resource: str = ""
    """The resource."""
    provision_state: ProvisionState = ProvisionState.UNSPECIFIED
    """Whether the user may use it."""
    active: bool = False
    """True: it is in use or can be used now. False before and after its window."""
    amount: int = 0
    """While active: the amount, in CPUs or bit/s."""
    version: str = ""
    """The version of the booking that the equipment has: its transaction."""
    version_consistent: bool = False
    """False: the equipment still has an older version of the booking, or has already claimed a
    newer one.
    """
    handle: str = ""
    """How the equipment names it. It is for the user and for operators: the name of a
    reservation at a cluster, for example.
    """
    trouble: str = ""
    """What is wrong at the equipment, in a sentence. Empty: nothing."""
    since: datetime | None = None
    """Since when all of this is so."""
    resource_manager: str = ""
    """The resource manager. Empty in the resource manager's own answers."""
    unusable: Sequence[str] = ()
    """What of it cannot be used now, such as servers that are down, by their whole names, or the
    resource itself. Only a change onto other equipment helps; a coordinator makes it by its
    `repair` policy.
    """

    @property
    def raw(self) -> resource_manager_pb2.DataPlane:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.DataPlane)


@dataclass(frozen=True)
class IdleServer(Value):
    """A server that is idle through a window."""

    _message_type: ClassVar[type[Message]] = resource_manager_pb2.IdleServer

    name: str = ""
    """Its whole name, SITE/NAME."""
    site: str = ""
    """The name of its site."""
    cpus: int = 0
    """Its CPUs."""
    properties: Sequence[str] = ()
    """Its properties."""
    idle_since: datetime | None = None
    """Since when it is idle. Unset: it was never reserved before."""
    idle_until: datetime | None = None
    """Until when it is idle: the start of its next reservation. Unset: it has none after the
    window.
    """
    resource_manager: str = ""
    """The resource manager of the site. Empty in the resource manager's own answers."""

    @property
    def raw(self) -> resource_manager_pb2.IdleServer:
        """The message as protobuf has it. Do not change it."""
        return self._raw_as(resource_manager_pb2.IdleServer)
