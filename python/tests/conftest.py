"""What several tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from federation import Federation, running

import coalloc
from coalloc import (
    CoAllocationRequest,
    LinkRequest,
    SiteRequest,
    gbps,
    minutes,
)


@pytest.fixture(scope="session")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """One federation for all tests: each reserves for itself and releases."""
    yield from running(tmp_path_factory.mktemp("run") / "fed")


@pytest.fixture
def client(federation: Federation) -> Iterator[coalloc.Client]:
    """A client of alice, and nothing of hers is reserved afterwards."""
    with federation.client() as client:
        yield client
        live = [coalloc.ReservationState.CONFIRMED, coalloc.ReservationState.ACTIVE]
        for one in client.list(states=live):
            client.release(one.id)


def pair(**changes: object) -> CoAllocationRequest:
    """Two sites and a link for ten minutes."""
    fields: dict[str, object] = {
        "sites": [SiteRequest("a", cpus=4), SiteRequest("b", cpus=2)],
        "links": [LinkRequest("a", "b", bandwidth_bps=gbps(1))],
        "duration_us": minutes(10),
    }
    return CoAllocationRequest(**(fields | changes))  # type: ignore[arg-type]
