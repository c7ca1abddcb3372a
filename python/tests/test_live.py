"""Every call against a real federation, by both clients."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import threading
from datetime import datetime, timedelta, timezone
from typing import TypedDict

import pytest
from conftest import pair
from federation import Federation, soon

import coalloc
from coalloc import (
    ActivityEvent,
    AllocateRequest,
    Client,
    PlanOptions,
    Reason,
    ReservationState,
    SiteRequest,
    TaskRequest,
    Workflow,
    WorkflowActivity,
    WorkflowData,
    gbps,
    hours,
    minutes,
    seconds,
)

LATER = {"hours": 2}


class Slots(TypedDict):
    """What is asked of a picture."""

    bandwidth_bps: int
    cpus: int
    first: datetime
    slot_us: int
    slots: int


def test_a_plan_holds_nothing_and_can_be_reserved_by_its_digest(client: Client) -> None:
    request = pair(earliest_start=soon(**LATER))
    answer = client.plan(request)
    plan = answer.plans[0]
    assert plan.window.end - plan.window.start == timedelta(minutes=10)
    assert answer.alternatives is None
    assert plan.raw.digest == plan.digest
    assert client.quota().reservations == 0
    reservation = client.reserve(request, plan_digest=plan.digest)
    assert reservation.plan is not None
    assert reservation.plan.digest == plan.digest
    assert reservation.state == ReservationState.CONFIRMED


def test_a_plan_that_cannot_be_made_any_more_is_refused_with_those_that_can(client: Client) -> None:
    request = pair(
        sites=[SiteRequest("a", cpus=9, pinned_to="tokyo")],
        links=[],
        earliest_start=soon(**LATER),
        latest_start=soon(hours=4),
    )
    answer = client.plan(request, PlanOptions(frames=2))
    client.reserve(dataclasses.replace(request, latest_start=None))
    with pytest.raises(coalloc.Refused) as raised:
        client.reserve(request, PlanOptions(frames=2), plan_digest=answer.plans[0].digest)
    assert raised.value.reason == Reason.PLAN_OUTDATED
    fresh = raised.value.fresh_plans[0]
    taken = client.reserve(request, PlanOptions(frames=2), plan_digest=fresh.digest)
    assert taken.plan is not None
    assert taken.plan.digest == fresh.digest


def test_one_id_is_one_reservation(client: Client) -> None:
    request = pair(earliest_start=soon(**LATER))
    first = client.reserve(request, request_id="one-id")
    again = client.reserve(request, request_id="one-id")
    assert (first.id, first.version) == (again.id, again.version)
    assert client.quota().reservations == 1
    other = dataclasses.replace(request, duration_us=minutes(20))
    with pytest.raises(coalloc.OtherContent):
        client.reserve(other, request_id="one-id")


def test_a_refusal_says_what_is_short_where_and_by_how_much(client: Client) -> None:
    start = soon(**LATER)
    client.reserve(
        pair(sites=[SiteRequest("a", cpus=10, pinned_to="tokyo")], links=[], earliest_start=start)
    )
    request = pair(
        sites=[SiteRequest("x", cpus=1), SiteRequest("a", cpus=9, pinned_to="tokyo")],
        links=[],
        earliest_start=start,
    )
    with pytest.raises(coalloc.Refused) as raised:
        client.reserve(request, PlanOptions(alternatives=True))
    refused = raised.value
    assert refused.reason == Reason.INSUFFICIENT_CAPACITY
    assert (refused.requested, refused.available, refused.shortage) == (9, 6, 3)
    assert (refused.unit, refused.resource, refused.field) == ("CPUs", "tokyo", "sites[1].cpus")
    assert refused.alternatives is not None
    assert refused.alternatives.nearest_window is not None
    assert refused.alternatives.nearest_window.start == start + timedelta(minutes=10)
    smaller = refused.alternatives.smaller[0].request
    assert smaller.sites[1].cpus == 6
    # What is offered can be reserved as it is.
    assert client.reserve(smaller).definite
    table = client.availability_table(
        request, first=start, last=start + timedelta(minutes=20), step_us=minutes(5)
    )
    assert [row.fits for row in table.rows] == [False, False, True, True, True]
    assert table.first is not None
    assert table.first.window.start == start + timedelta(minutes=10)


def test_a_link_that_is_too_wide_is_the_field_of_the_link(client: Client) -> None:
    wide = coalloc.LinkRequest("a", "b", bandwidth_bps=gbps(11))
    with pytest.raises(coalloc.Refused) as raised:
        client.reserve(pair(links=[wide], earliest_start=soon(**LATER)))
    refused = raised.value
    assert (refused.field, refused.unit) == ("links[0].bandwidth_bps", "bit/s")
    assert refused.shortage == gbps(1)
    with pytest.raises(coalloc.Refused) as raised:
        client.reserve(pair(earliest_start=soon(days=120)))
    assert (raised.value.field, raised.value.shortage) == ("earliest_start", None)


def test_bad_input_names_the_field_and_what_is_allowed(client: Client) -> None:
    with pytest.raises(coalloc.InvalidRequest) as raised:
        client.plan(pair(sites=[SiteRequest("a", cpus=0)], links=[]))
    assert raised.value.field == "sites[0].cpus"
    assert "1 to 10000000" in raised.value.fields[0].problem
    with pytest.raises(coalloc.NotFound) as missing:
        client.get("nobody")
    assert (missing.value.kind, missing.value.name) == ("reservation", "nobody")
    with pytest.raises(coalloc.NotAllowed):
        client.reserve(pair(user="bob"))
    confirmed = client.reserve(pair(earliest_start=soon(**LATER)))
    with pytest.raises(coalloc.NotNow):
        client.release_rest(confirmed.id)


def test_a_change_is_whole_or_nothing(client: Client) -> None:
    request = pair(earliest_start=soon(**LATER))
    reservation = client.reserve(request)
    longer = client.modify(reservation.id, dataclasses.replace(request, duration_us=minutes(30)))
    assert longer.version == 2
    assert longer.plan is not None
    assert longer.plan.window.end - longer.plan.window.start == timedelta(minutes=30)
    too_large = dataclasses.replace(request, sites=[SiteRequest("a", cpus=17), request.sites[1]])
    with pytest.raises(coalloc.Refused) as raised:
        client.modify(reservation.id, too_large)
    assert raised.value.field == "sites[0].cpus"
    assert client.get(reservation.id).version == 2
    released = client.release(reservation.id)
    assert released.state == ReservationState.TERMINATED
    assert client.release(reservation.id).state == ReservationState.TERMINATED


def test_pages_are_read_while_they_are_iterated_over(client: Client) -> None:
    start = soon(hours=4)
    made = [
        client.reserve(pair(earliest_start=start + timedelta(hours=hour), series="lecture")).id
        for hour in range(5)
    ]
    listed = client.list(series="lecture", page_size=2)
    assert [one.id for one in listed] == made
    assert len(client.list(series="lecture", page_size=2).to_frame()) >= 15
    assert [one.series for one in [client.get(made[0]).request] if one] == ["lecture"]
    confirmed = client.list(states=[ReservationState.CONFIRMED], series="lecture")
    assert len(list(confirmed)) == 5


def test_whole_servers_are_searched_and_allocated(client: Client) -> None:
    start = soon(**LATER)
    end = start + timedelta(hours=1)
    idle = client.servers(start, end)
    assert {one.site for one in idle.servers} == {"lab"}
    picked = AllocateRequest(
        servers=2, site="lab", duration_us=hours(1), earliest_start=start, latest_start=start
    )
    reservation = client.allocate(picked)
    assert len(reservation.servers[0].servers) == 2
    assert not client.servers(start, end).servers
    with pytest.raises(coalloc.Refused):
        client.allocate(picked)


def test_a_task_is_planned_and_reserved_on_a_picture(
    client: Client, federation: Federation
) -> None:
    task = TaskRequest(
        source="tokyo",
        data_bytes=1_250_000_000,
        bandwidth_bps=gbps(1),
        cpus=4,
        work_mi=1_500_000,
        ready=soon(minutes=1),
        deadline=soon(minutes=10),
        cluster="osaka",
    )
    planned = client.plan_task(task)
    assert planned.plans[0].cluster == "osaka"
    receipt = client.submit_task(task, request_id="a-task")
    assert receipt.confirmed
    assert receipt.plan is not None
    assert receipt.plan.arrival - receipt.plan.departure >= timedelta(seconds=10)
    assert client.submit_task(task, request_id="a-task").reservation == receipt.reservation
    hasty = dataclasses.replace(task, deadline=soon(minutes=1, seconds=5))
    with pytest.raises(coalloc.Refused) as raised:
        client.submit_task(hasty)
    assert raised.value.receipt is not None
    slots = Slots(bandwidth_bps=gbps(1), cpus=4, first=soon(), slot_us=seconds(1), slots=600)
    with federation.client("operator") as operator:
        parts = operator.picture(**slots).parts
        assert {one.resource_manager for one in parts} == set(federation.managers)
    with pytest.raises(coalloc.NotAllowed):
        client.picture(**slots)


def chain(ready_in_s: float) -> Workflow:
    """Two activities and what travels between them."""
    return Workflow(
        activities=[
            WorkflowActivity("first", duration_us=minutes(5), cpus=2, sites=["tokyo"]),
            WorkflowActivity("second", duration_us=minutes(5), cpus=2, sites=["osaka"]),
        ],
        data=[WorkflowData("between", bytes=1_250_000_000, from_="first", to=["second"])],
        ready=soon(seconds=ready_in_s),
        deadline=soon(hours=1),
    )


def test_a_workflow_is_reserved_followed_and_revised(client: Client) -> None:
    workflow = chain(ready_in_s=1)
    planned = client.plan_workflow(workflow)
    assert planned.plan is not None
    receipt = client.submit_workflow(workflow, request_id="a-workflow")
    assert receipt.plan is not None
    assert [one.name for one in receipt.plan.activities] == ["first", "second"]
    assert client.workflow("a-workflow").version == 1
    watch = client.watch(receipt.reservation, resume_token="0")
    assert any(event.state == ReservationState.ACTIVE for event in watch)
    watch.close()
    told = client.report_activity("a-workflow", "first", ActivityEvent.STARTED)
    assert told.version >= 1
    revised = client.revise_workflow("a-workflow", again=["second"], plan_only=True)
    assert revised.revision is not None
    hasty = dataclasses.replace(workflow, deadline=soon(minutes=6))
    with pytest.raises(coalloc.Refused) as raised:
        client.submit_workflow(hasty)
    assert raised.value.receipt is not None


def test_what_has_begun_is_given_back_from_now_on(client: Client) -> None:
    reservation = client.reserve(pair(earliest_start=soon(seconds=1), duration_us=hours(1)))
    with client.watch(reservation.id, resume_token="0") as watch:
        assert any(event.state == ReservationState.ACTIVE for event in watch)
    rest = client.release_rest(reservation.id)
    assert rest.plan is not None
    assert rest.plan.window.end < soon(minutes=2)


def test_the_user_is_let_in_and_out_by_hand(client: Client) -> None:
    reservation = client.reserve(pair(earliest_start=soon(**LATER), manual_provision=True))
    assert reservation.manual_provision
    assert not client.provision(reservation.id).manual_provision
    assert client.deprovision(reservation.id).manual_provision
    assert client.data_plane(reservation.id).data_plane == ()


def test_a_watch_has_begun_when_it_is_returned(client: Client) -> None:
    with client.watch() as watch:
        reservation = client.reserve(pair(earliest_start=soon(**LATER)))
        seen = []
        for event in watch:
            seen.append(event)
            if event.state == ReservationState.CONFIRMED:
                break
    assert {event.reservation for event in seen} == {reservation.id}
    # It goes on after the event whose token is given, and nothing is told twice.
    with client.watch(resume_token=seen[0].resume_token) as again:
        told = [next(again).sequence for _ in seen[1:]]
    assert told == [event.sequence for event in seen[1:]]
    with pytest.raises(coalloc.InvalidRequest):
        client.watch(resume_token="yesterday")


def test_a_watch_is_closed_from_another_thread(client: Client) -> None:
    watch = client.watch()
    closer = threading.Timer(0.05, watch.close)
    closer.start()
    assert list(watch) == []
    closer.join()


def test_a_watch_goes_on_after_it_was_interrupted(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.watch() as watch:
        with monkeypatch.context() as interrupted:

            def interrupt(self: object) -> None:
                raise KeyboardInterrupt

            interrupted.setattr("coalloc._waiting.Stream.next", interrupt)
            with pytest.raises(KeyboardInterrupt):
                next(watch)
        reservation = client.reserve(pair(earliest_start=soon(**LATER)))
        assert next(watch).reservation == reservation.id


def test_a_watch_goes_on_after_nothing_came_in_time(federation: Federation) -> None:
    async def whole() -> None:
        async with federation.async_client() as client, client.watch() as watch:
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(anext(watch), 0.01)
            reservation = await client.reserve(pair(earliest_start=soon(**LATER)))
            first = await asyncio.wait_for(anext(watch), 30)
            assert first.reservation == reservation.id
            listed = client.list()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(listed), 0)
            assert (await anext(listed)).id
            await client.release(reservation.id)
            # A call that is cancelled ends, and the client goes on.
            call = asyncio.ensure_future(client.quota())
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert (await client.quota()).user == "alice"

    asyncio.run(whole())


def test_the_federation_is_described(client: Client) -> None:
    said = client.federation()
    sites = [
        one
        for manager in said.resource_managers
        if manager.description
        for one in manager.description.sites
    ]
    assert {site.name: site.cpus for site in sites} == {"tokyo": 16, "osaka": 8, "lab": 8}
    now = datetime.now(timezone.utc)
    ages = [now - manager.described for manager in said.resource_managers if manager.described]
    assert len(ages) == len(said.resource_managers)
    assert max(ages) < timedelta(minutes=1)
    frame = said.to_frame()
    assert set(frame[frame.kind == "path"].name) == {"tokyo-osaka", "osaka-lab"}
    assert frame.described.notna().all()


def test_the_client_of_asyncio_does_the_same(federation: Federation) -> None:
    async def whole() -> None:
        async with federation.async_client() as client:
            request = pair(earliest_start=soon(hours=5))
            assert (await client.plan(request)).plans
            async with client.watch() as watch:
                reservation = await client.reserve(request, request_id="async-one")
                async for event in watch:
                    if event.state == ReservationState.CONFIRMED:
                        break
                assert watch.resume_token
            several = await asyncio.gather(*(client.get(reservation.id) for _ in range(20)))
            assert {one.id for one in several} == {reservation.id}
            listed = [one.id async for one in client.list(page_size=1)]
            assert reservation.id in listed
            assert len(await client.list(page_size=1).to_frame()) >= 3
            longer = dataclasses.replace(request, duration_us=minutes(20))
            assert (await client.modify(reservation.id, longer)).version == 2
            with pytest.raises(coalloc.NotFound):
                await client.get("nobody")
            released = await client.release(reservation.id)
            assert released.state == ReservationState.TERMINATED

    asyncio.run(whole())


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {
            name: [str(one) for one in inspect.signature(method).parameters.values()]
            for name, method in found
            if not name.startswith("_")
        }

    assert methods(coalloc.Client) == methods(coalloc.AsyncClient)
    for name, method in inspect.getmembers(coalloc.Client, inspect.isfunction):
        assert name.startswith("_") or method.__doc__, name


def test_all_of_it_is_sound(client: Client, federation: Federation) -> None:
    assert "All is as it must be" in federation.audit()
