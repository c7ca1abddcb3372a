"""The coordinator is killed (kill -9) inside every call, and started again: every call has its outcome, and nothing is done twice.

A call is hit at one of these moments: its request lies unread in the coordinator's socket; the coordinator has told the first of
what it recorded about it; it has told its decision; its answer is on the way, and is lost. In the end the whole federation is
audited.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from conftest import pair
from federation import Federation, running, soon
from test_live import chain

import coalloc
from coalloc import (
    ActivityEvent,
    AllocateRequest,
    Client,
    Reason,
    ReservationState,
    TaskRequest,
    gbps,
    hours,
    minutes,
)
from coalloc._details import Details
from coalloc._program import Answer, Call, Failed

pytestmark = pytest.mark.kills
UNREAD, FIRST, DECIDED, ANSWERED = "unread", "first record", "decided", "answered"


@pytest.fixture(scope="module")
def doomed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    """A federation whose coordinator is killed. At the end it is whole, and nothing is overbooked, half booked or lost."""
    for federation in running(tmp_path_factory.mktemp("kills") / "fed"):
        yield federation
        with federation.client() as client:
            ids = [one.request_id for one in client.list()]
        assert len(ids) == len(set(ids)), "a request was reserved twice"
        assert "All is as it must be" in federation.audit()


class Killer:
    """Stands between a client and its coordinator, which it kills at one moment of one call."""

    def __init__(self, federation: Federation, client: Client, method: str, moment: str) -> None:
        self._federation = federation
        self._method = method
        self._moment = moment
        self._call = client._channels.call
        self.kills = 0
        self.is_for_good = False
        # Connected already, so that a request is sent at once.
        client.quota()
        client._channels.call = self.call  # type: ignore[method-assign]

    def kill(self) -> None:
        """kill -9, and a new process."""
        self.kills += 1
        self._federation.kill("grc")
        if not self.is_for_good:
            self._federation.start("grc")

    def call(self, call: Call) -> Answer | Failed:
        """Makes a call, and kills the coordinator inside the first one of the method."""
        if self.kills or not call.path.endswith(f"/{self._method}"):
            return self._call(call)
        if self._moment == UNREAD:
            return self._unread(call)
        outcome = self._call(call)
        if self._moment == ANSWERED:
            self.kill()
            return Failed("UNAVAILABLE", "the answer was lost", Details(), 0, outcome.at_s)
        return outcome

    def _unread(self, call: Call) -> Answer | Failed:
        self._federation.stop("grc")
        outcomes: list[Answer | Failed] = []
        caller = threading.Thread(target=lambda: outcomes.append(self._call(call)))
        before = self._federation.unread()
        caller.start()
        while self._federation.unread() == before and caller.is_alive():
            pass
        self.kill()
        caller.join()
        return outcomes[0]


def killed_at_record(
    federation: Federation, killer: Killer, place: int, call: Callable[[], Any]
) -> Any:
    """Makes a call; the coordinator is killed when it has told the `place`-th record that the call makes."""
    with federation.client() as observer, observer.watch() as watch:

        def observe() -> None:
            for index, _ in enumerate(watch, 1):
                if index == place:
                    killer.kill()
                    return

        thread = threading.Thread(target=observe)
        thread.start()
        try:
            return call()
        finally:
            # Every call that is hit so makes that many records, sooner or later.
            thread.join()


@dataclass(frozen=True)
class Case:
    """A call that is hit."""

    method: str
    """As the schema names it."""
    prepare: Callable[[Client, str], Any]
    """What must be there before; gets a name that no other case has."""
    call: Callable[[Client, str, Any], Any]
    check: Callable[[Client, str, Any, Any], bool]
    """Whether the outcome is right, and was reached once."""
    decision: int = 3
    """Which of the records that the call makes says what was decided."""


def _nothing(client: Client, name: str) -> None:
    pass


def _reserved(client: Client, name: str) -> coalloc.Reservation:
    return client.reserve(pair(earliest_start=soon(hours=2)), request_id=f"{name}-before")


def _active(client: Client, name: str) -> coalloc.Reservation:
    request = pair(earliest_start=soon(), duration_us=hours(1))
    reservation = client.reserve(request, request_id=f"{name}-before")
    with client.watch(reservation.id, resume_token="0") as watch:
        assert any(event.state == ReservationState.ACTIVE for event in watch)
    return reservation


def _is_one(client: Client, name: str, before: Any, said: Any) -> bool:
    found = [one for one in client.list() if one.request_id == name]
    return len(found) == 1 and found[0].state == ReservationState.CONFIRMED


def _is_version_2(client: Client, name: str, before: coalloc.Reservation, said: Any) -> bool:
    return client.get(before.id).version == 2


def _task() -> TaskRequest:
    return TaskRequest(
        source="tokyo",
        data_bytes=1_250_000_000,
        bandwidth_bps=gbps(1),
        cpus=1,
        work_mi=1_500_000,
        ready=soon(minutes=30),
        deadline=soon(minutes=50),
    )


def _longer(before: coalloc.Reservation) -> coalloc.CoAllocationRequest:
    assert before.request is not None
    return dataclasses.replace(before.request, duration_us=minutes(20))


def _workflow(client: Client, name: str) -> coalloc.Workflow:
    return dataclasses.replace(chain(0), ready=soon(minutes=30), deadline=soon(hours=2))


def _submitted(client: Client, name: str) -> coalloc.WorkflowReceipt:
    receipt = client.submit_workflow(_workflow(client, name), request_id=f"{name}-before")
    assert receipt.confirmed
    return receipt


def _running(client: Client, name: str) -> coalloc.WorkflowReceipt:
    receipt = client.submit_workflow(chain(0), request_id=f"{name}-before")
    with client.watch(receipt.reservation, resume_token="0") as watch:
        assert any(event.state == ReservationState.ACTIVE for event in watch)
    return receipt


SERVERS = AllocateRequest(servers=1, site="lab", duration_us=minutes(10))
CHANGES = [
    Case(
        "Reserve",
        _nothing,
        lambda client, name, _: client.reserve(pair(earliest_start=soon(hours=3)), request_id=name),
        _is_one,
    ),
    Case(
        "Allocate",
        _nothing,
        lambda client, name, _: client.allocate(
            dataclasses.replace(SERVERS, earliest_start=soon(hours=3)), request_id=name
        ),
        _is_one,
    ),
    Case(
        "SubmitTask",
        _nothing,
        lambda client, name, _: client.submit_task(_task(), request_id=name),
        _is_one,
    ),
    Case(
        "SubmitWorkflow",
        _workflow,
        lambda client, name, workflow: client.submit_workflow(workflow, request_id=name),
        _is_one,
    ),
    Case(
        "Modify",
        _reserved,
        lambda client, _, before: client.modify(before.id, _longer(before)),
        _is_version_2,
    ),
    Case(
        "Deprovision",
        _reserved,
        lambda client, _, before: client.deprovision(before.id),
        _is_version_2,
    ),
    Case(
        "Provision",
        lambda client, name: client.reserve(
            pair(earliest_start=soon(hours=2), manual_provision=True), request_id=f"{name}-before"
        ),
        lambda client, _, before: client.provision(before.id),
        _is_version_2,
    ),
    Case(
        "ReleaseRest",
        _active,
        lambda client, _, before: client.release_rest(before.id),
        _is_version_2,
    ),
    Case(
        "Release",
        _reserved,
        lambda client, _, before: client.release(before.id),
        lambda client, _, before, said: said.state == ReservationState.TERMINATED,
        decision=2,
    ),
    Case(
        "ReviseWorkflow",
        _submitted,
        lambda client, name, _: client.revise_workflow(f"{name}-before", again=["second"]),
        lambda client, name, before, said: client.workflow(f"{name}-before").confirmed,
    ),
]
READS = [
    Case(
        "Plan",
        _nothing,
        lambda client, _, __: client.plan(pair(earliest_start=soon(hours=4))),
        lambda client, _, __, said: len(said.plans) == 1,
    ),
    Case(
        "Get",
        _reserved,
        lambda client, _, before: client.get(before.id),
        lambda client, _, before, said: said.id == before.id,
    ),
    Case(
        "List",
        _reserved,
        lambda client, _, __: list(client.list(page_size=1)),
        lambda client, _, before, said: before.id in [one.id for one in said],
    ),
    Case(
        "SearchServers",
        _nothing,
        lambda client, _, __: client.servers(soon(hours=9), soon(hours=10)),
        lambda client, _, __, said: len(said.servers) == 2,
    ),
    Case(
        "PlanTask",
        _nothing,
        lambda client, _, __: client.plan_task(_task()),
        lambda client, _, __, said: len(said.plans) == 1,
    ),
    Case(
        "PlanWorkflow",
        _workflow,
        lambda client, _, workflow: client.plan_workflow(workflow),
        lambda client, _, __, said: said.plan is not None,
    ),
    Case(
        "GetWorkflow",
        _submitted,
        lambda client, name, _: client.workflow(f"{name}-before"),
        lambda client, _, __, said: len(said.plan.activities) == 2,
    ),
    Case(
        "DescribeFederation",
        _nothing,
        lambda client, _, __: client.federation(),
        lambda client, _, __, said: len(said.resource_managers) == 4,
    ),
    Case(
        "GetQuota",
        _nothing,
        lambda client, _, __: client.quota(),
        lambda client, _, __, said: said.user == "alice",
    ),
    Case(
        "GetDataPlane",
        _reserved,
        lambda client, _, before: client.data_plane(before.id),
        lambda client, _, __, said: said.data_plane == (),
    ),
]
HITS = [
    *((case, moment) for case in CHANGES for moment in (UNREAD, FIRST, DECIDED, ANSWERED)),
    *((case, moment) for case in READS for moment in (UNREAD, ANSWERED)),
]


@pytest.mark.parametrize(
    ("case", "moment"), HITS, ids=[f"{case.method}, {moment}" for case, moment in HITS]
)
def test_a_call_outlives_its_coordinator(doomed: Federation, case: Case, moment: str) -> None:
    name = f"{case.method}-{moment.split()[0]}"
    with doomed.client() as client, doomed.client() as other:
        before = case.prepare(other, name)
        killer = Killer(doomed, client, case.method, moment)

        def call() -> Any:
            return case.call(client, name, before)

        place = {FIRST: 1, DECIDED: case.decision}.get(moment)
        try:
            said = call() if place is None else killed_at_record(doomed, killer, place, call)
        except coalloc.Refused as refused:
            # It was killed before it had decided, so nothing is reserved. Whoever still wants it asks anew.
            assert moment == FIRST
            assert refused.reason == Reason.COORDINATOR_RESTARTED
            assert refused.is_transient
            name += "-again"
            said = call()
        assert killer.kills == 1
        assert case.check(other, name, before, said)
        live = [ReservationState.CONFIRMED, ReservationState.ACTIVE]
        for one in other.list(states=live):
            if one.request_id.startswith(name):
                other.release(one.id)


def test_a_report_outlives_its_coordinator(doomed: Federation) -> None:
    with doomed.client() as client, doomed.client() as other:
        receipt = _running(other, "report")
        for moment, event in ((UNREAD, ActivityEvent.STARTED), (ANSWERED, ActivityEvent.FINISHED)):
            killer = Killer(doomed, client, "ReportActivity", moment)
            client.report_activity("report-before", "first", event)
            assert killer.kills == 1
        plan = other.workflow("report-before").plan
        assert plan is not None
        assert plan.activities[0].progress == coalloc.ActivityProgress.FINISHED
        assert plan.activities[0].reported
        other.release(receipt.reservation)


def test_a_watch_misses_nothing_and_tells_nothing_twice(doomed: Federation) -> None:
    with doomed.client() as client, doomed.client() as other, client.watch() as watch:
        ids = []
        for _ in range(3):
            ids.append(other.reserve(pair(earliest_start=soon(hours=7))).id)
            doomed.kill("grc")
            doomed.start("grc")
        seen: list[coalloc.ReservationEvent] = []
        while len([one for one in seen if one.state == ReservationState.CONFIRMED]) < 3:
            seen.append(next(watch))
        sequences = [event.sequence for event in seen]
        assert sequences == sorted(set(sequences))
        assert list(dict.fromkeys(event.reservation for event in seen)) == ids
        with other.watch(resume_token="0") as whole:
            last = seen[-1].sequence
            told: list[int] = []
            while not told or told[-1] < last:
                told.append(next(whole).sequence)
        assert sequences == told[-len(sequences) :]
        for one in ids:
            other.release(one)


def test_the_client_of_asyncio_outlives_its_coordinator(doomed: Federation) -> None:
    async def whole() -> None:
        async with doomed.async_client() as client:
            original = client._channels.call
            is_lost = False

            async def call(call: Call) -> Answer | Failed:
                nonlocal is_lost
                outcome = await original(call)
                if is_lost:
                    return outcome
                is_lost = True
                doomed.kill("grc")
                doomed.start("grc")
                return Failed("UNAVAILABLE", "the answer was lost", Details(), 0, outcome.at_s)

            client._channels.call = call  # type: ignore[method-assign]
            request = pair(earliest_start=soon(hours=8))
            reservation = await client.reserve(request, request_id="async-killed")
            is_lost = False
            longer = dataclasses.replace(request, duration_us=minutes(20))
            assert (await client.modify(reservation.id, longer)).version == 2
            is_lost = False
            released = await client.release(reservation.id)
            assert released.state == ReservationState.TERMINATED

    asyncio.run(whole())


def test_an_outcome_that_stays_unknown_says_where_to_look(doomed: Federation) -> None:
    with doomed.client(patience_s=0.5) as client, doomed.client() as other:
        killer = Killer(doomed, client, "Reserve", ANSWERED)
        killer.is_for_good = True
        with pytest.raises(coalloc.Indefinite) as raised:
            client.reserve(pair(earliest_start=soon(hours=6)), request_id="lost")
        assert raised.value.id == "lost"
        assert "get('lost')" in raised.value.look
        doomed.start("grc")
        assert other.get(raised.value.id).state == ReservationState.CONFIRMED
        window = other.release("lost").plan
        assert window is not None
        assert window.window.end - window.window.start == timedelta(minutes=10)
