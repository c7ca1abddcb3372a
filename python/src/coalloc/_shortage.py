"""Of what a refusal says there is too little, and by how much.

A refusal may have amounts of one resource, and it may have a bottleneck, which counts other things: sites that are too small, for
example. The amounts of a resource say more, where there are any.

Left out: what was refused (`coalloc.errors`).
"""

from __future__ import annotations

from dataclasses import dataclass

from coalloc.messages import BottleneckKind, Refusal

_UNITS = {
    BottleneckKind.SITE: "CPUs",
    BottleneckKind.SITES: "sites",
    BottleneckKind.PATH: "bit/s",
    BottleneckKind.CUT: "bit/s",
    BottleneckKind.LENGTH: "paths",
    BottleneckKind.LATENCY: "us",
    BottleneckKind.PATHS: "bit/s",
    BottleneckKind.PACKING: "links",
    BottleneckKind.COMBINATION: "bit/s",
}


@dataclass(frozen=True)
class Shortage:
    """How much was wanted, and how much is there."""

    resource: str
    """The resource; several with commas between. Empty: it was no resource."""
    requested: int | None
    """What was wanted, in `unit`. None: it is not about an amount."""
    available: int | None
    """What is there, in `unit`. None: it is not about an amount."""
    unit: str
    """CPUs, GB (of storage), bit/s, sites, paths, links, us (microseconds). Empty: the refusal does not say."""

    @property
    def amount(self) -> int | None:
        """By how much it is too little, in `unit`. None: it is not about an amount."""
        if self.requested is None or self.available is None:
            return None
        return self.requested - self.available


def shortage_of(refusal: Refusal) -> Shortage:
    """What a refusal says."""
    bottleneck = refusal.bottleneck
    if bottleneck is None:
        return Shortage(refusal.resource, refusal.requested, refusal.available, "")
    resource = refusal.resource or ", ".join(bottleneck.resources)
    kind, requested, available = bottleneck.kind, bottleneck.requested, bottleneck.available
    if kind == BottleneckKind.SITES and refusal.resource and refusal.requested is not None:
        kind, requested, available = BottleneckKind.SITE, refusal.requested, refusal.available or 0
    unit = _UNITS.get(kind, "")
    if kind == BottleneckKind.SITE and bottleneck.resource_kind:
        unit = "GB" if bottleneck.resource_kind == "storage" else bottleneck.resource_kind
    return Shortage(resource, requested, available, unit)
