"""What is done after each error, without a network and in no time."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from google.protobuf.message import Message

from coalloc import coalloc_details_pb2 as details_pb2
from coalloc import errors
from coalloc._calls import call, listing, modify, release, reserve
from coalloc._details import Details, read_details, write_details
from coalloc._exchange import Change, Patience, exchange
from coalloc._program import Answer, Call, Emit, Failed, MoveOn, Next, Nothing, Open, Pause, Ready
from coalloc._watching import WatchPosition, watch
from coalloc.messages import CoAllocationRequest
from coalloc.v1 import coordinator_pb2 as wire

GET = call("Get", wire.GetRequest(id="r"), wire.GetResponse)
CHANGE = Change("r", "get('r')")


class World:
    """Plays outcomes to a program. A pause lets its time pass, and nothing else does."""

    def __init__(self, *outcomes: Message | tuple[str, Details] | str) -> None:
        self.outcomes = list(outcomes)
        self.now_s = 100.0
        self.calls: list[Call] = []
        self.moves: list[int] = []
        self.opened: list[str] = []

    def _next(self) -> Answer | Failed:
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Message):
            return Answer(outcome, self.now_s)
        code, details = outcome if isinstance(outcome, tuple) else (outcome, Details())
        return Failed(code, f"it said {code}", details, len(self.moves), self.now_s)

    def run(self, program: Generator[Any, Any, Any], items: int = 10**9) -> Any:
        """Until the program has ended, or so many items have come."""
        found: list[Any] = []
        step = next(program)
        while True:
            outcome: Any = Nothing(self.now_s)
            match step:
                case Call():
                    self.calls.append(step)
                    outcome = self._next()
                case Open():
                    assert isinstance(step.call.message, wire.WatchRequest)
                    self.opened.append(step.call.message.resume_token)
                case Next():
                    outcome = self._next()
                case Pause():
                    self.now_s += step.seconds
                    outcome = Nothing(self.now_s)
                case MoveOn():
                    self.moves.append(step.connection)
                case Emit():
                    found.append(step.item)
                    if len(found) == items:
                        return found
                case Ready():
                    found.append("ready")
            try:
                step = program.send(outcome)
            except StopIteration as end:
                return end.value if end.value is not None else found


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", errors.InvalidRequest),
        ("NOT_FOUND", errors.NotFound),
        ("ALREADY_EXISTS", errors.OtherContent),
        ("PERMISSION_DENIED", errors.NotAllowed),
        ("UNAUTHENTICATED", errors.NotAllowed),
        ("UNIMPLEMENTED", errors.Unsupported),
        ("FAILED_PRECONDITION", errors.NotNow),
    ],
)
def test_what_is_turned_away_is_not_sent_again(code: str, kind: type[Exception]) -> None:
    world = World(code)
    with pytest.raises(kind, match=f"it said {code}"):
        world.run(exchange(GET, Patience(), CHANGE))
    assert len(world.calls) == 1


@pytest.mark.parametrize(
    "code",
    [
        "UNAVAILABLE",
        "DEADLINE_EXCEEDED",
        "CANCELLED",
        "UNKNOWN",
        "INTERNAL",
        "ABORTED",
        "DATA_LOSS",
    ],
)
def test_whatever_a_transport_says_leaves_the_outcome_unknown(code: str) -> None:
    answer = wire.GetResponse()
    world = World(code, code, answer)
    assert world.run(exchange(GET, Patience(), CHANGE)) is answer
    # The same message, each time on a new connection.
    assert world.calls == [GET, GET, GET]
    assert world.moves == [0, 1]
    forever = World(code)
    with pytest.raises(errors.Indefinite, match="get") as raised:
        forever.run(exchange(GET, Patience(30), CHANGE))
    assert raised.value.id == "r"
    assert forever.now_s - 100 == pytest.approx(30, abs=0.5)
    with pytest.raises(errors.Unreachable):
        World(code).run(exchange(GET, Patience(30)))


def test_nothing_done_is_not_unknown() -> None:
    standby = ("UNAVAILABLE", Details(reason="STANDBY", retry_after_us=1_000_000))
    with pytest.raises(errors.Unreachable):
        World(standby).run(exchange(GET, Patience(5), CHANGE))
    # One try of unknown outcome is enough.
    with pytest.raises(errors.Indefinite):
        World("UNAVAILABLE", standby).run(exchange(GET, Patience(5), CHANGE))


def test_a_busy_coordinator_is_asked_again_when_it_says() -> None:
    busy = ("RESOURCE_EXHAUSTED", Details(reason="BUSY", retry_after_us=2_000_000))
    answer = wire.GetResponse()
    world = World(busy, busy, answer)
    assert world.run(exchange(GET, Patience(), CHANGE)) is answer
    assert (world.now_s, world.moves) == (104.0, [])
    full = ("RESOURCE_EXHAUSTED", Details(reason="DISK_FULL", retry_after_us=60_000_000))
    with pytest.raises(errors.Busy) as raised:
        World(full).run(exchange(GET, Patience(), CHANGE))
    assert raised.value.retry_after_us == 60_000_000
    # A message that was too large for this end may have been an answer.
    with pytest.raises(errors.Indefinite):
        World("RESOURCE_EXHAUSTED").run(exchange(GET, Patience(), CHANGE))


def test_a_fault_of_the_coordinator_is_not_sent_again() -> None:
    fault = ("INTERNAL", Details(reason="INTERNAL"))
    world = World(fault)
    with pytest.raises(errors.CallFailed):
        world.run(exchange(GET, Patience()))
    assert len(world.calls) == 1
    with pytest.raises(errors.Indefinite):
        World(fault).run(exchange(GET, Patience(), CHANGE))


def test_details_are_read_and_what_cannot_be_read_says_nothing() -> None:
    trailer = write_details(
        details_pb2.ErrorInfo(reason="BUSY", domain="coalloc", metadata={"a": "b"}),
        details_pb2.BadRequest(
            field_violations=[
                details_pb2.BadRequest.FieldViolation(field="sites[0].cpus", description="0")
            ]
        ),
        details_pb2.ResourceInfo(resource_type="reservation", resource_name="r"),
    )
    read = read_details(trailer)
    assert (read.reason, read.about, read.kind, read.name) == (
        "BUSY",
        {"a": "b"},
        "reservation",
        "r",
    )
    assert read.fields[0].field == "sites[0].cpus"
    for nonsense in (None, b"", b"\xff\xff\xff", trailer[:-3]):
        assert read_details(nonsense).reason == ""
    foreign = details_pb2.ErrorInfo(reason="STANDBY", domain="elsewhere.example")
    assert read_details(write_details(foreign)).reason == ""


def test_pages_follow_one_another_until_the_last() -> None:
    def page(token: str, *ids: str) -> wire.ListResponse:
        answer = wire.ListResponse(next_page_token=token)
        for id in ids:
            answer.reservations.add(id=id).created.seconds = 1
        return answer

    world = World(page("t1", "a", "b"), "UNAVAILABLE", page("t2"), page("", "c"))
    found = world.run(listing("", (), "lecture", 2, Patience()))
    assert [one.id for one in found] == ["a", "b", "c"]
    asked = [one.message for one in world.calls]
    assert [getattr(one, "page_token", None) for one in asked] == ["", "t1", "t1", "t2"]
    assert {one.needs for one in world.calls} == {("series",)}


def test_a_watch_goes_on_after_the_last_event() -> None:
    def event(token: str) -> wire.WatchResponse:
        answer = wire.WatchResponse()
        answer.event.resume_token = token
        answer.event.time.seconds = 1
        return answer

    beginning = wire.WatchResponse()
    beginning.progress.resume_token = "begun"
    place = ("RESOURCE_EXHAUSTED", Details())
    world = World(beginning, event("1"), "UNAVAILABLE", place, event("2"), event("3"))
    position = WatchPosition("")
    found = world.run(watch("", "", position, Patience()), items=4)
    assert found[0] == "ready"
    assert [one.resume_token for one in found[1:]] == ["1", "2", "3"]
    assert world.opened == ["", "1", "1"]
    assert position.resume_token == "3"
    with pytest.raises(errors.NotNow):
        World("FAILED_PRECONDITION").run(watch("", "", WatchPosition("old"), Patience()))
    with pytest.raises(errors.Unreachable):
        World("UNAVAILABLE").run(watch("", "", WatchPosition(""), Patience(5)))


def reserved(**fields: Any) -> wire.ReserveResponse:
    """An answer to Reserve."""
    answer = wire.ReserveResponse()
    answer.reservation.created.seconds = 1
    for name, value in fields.items():
        setattr(answer.reservation, name, value)
    return answer


def test_an_answer_that_is_not_final_is_not_a_reservation() -> None:
    world = World(reserved(id="grc-1", state=wire.RESERVATION_STATE_COMMITTING))
    with pytest.raises(errors.Indefinite, match="COMMITTING") as raised:
        world.run(reserve(CoAllocationRequest(duration_us=1), None, "mine", "", Patience()))
    assert raised.value.id == "mine"
    assert raised.value.reservation is not None
    assert raised.value.reservation.id == "grc-1"
    change = wire.ModifyResponse(reservation=reserved(id="grc-1", definite=True).reservation)
    change.reservation.change.state = wire.CHANGE_STATE_COMMITTING
    request = CoAllocationRequest(duration_us=1)
    with pytest.raises(errors.Indefinite, match=r"get\('grc-1'\)\.change"):
        World(change).run(modify("grc-1", request, None, "c", False, Patience()))
    release_answer = wire.ReleaseReservationResponse(
        reservation=reserved(id="grc-1", state=wire.RESERVATION_STATE_TERMINATING).reservation
    )
    with pytest.raises(errors.Indefinite, match="TERMINATING"):
        World(release_answer).run(release("grc-1", "", Patience()))


def test_a_call_says_what_its_receiver_must_know() -> None:
    def needs(**fields: Any) -> set[tuple[str, ...]]:
        request = CoAllocationRequest(duration_us=1, **fields)
        world = World(reserved(definite=True))
        world.run(reserve(request, None, "r", "", Patience()))
        modified = wire.ModifyResponse(reservation=reserved(definite=True).reservation)
        world.outcomes = [modified]
        world.run(modify("r", request, None, "c", False, Patience()))
        return {one.needs for one in world.calls}

    assert needs() == {()}
    # What is not set, or false, an older coordinator does as it is meant.
    assert needs(manual_provision=False) == {()}
    assert needs(manual_provision=True) == {("manual-provision",)}
    assert needs(manual_provision=True, series="s") == {("manual-provision", "series")}
