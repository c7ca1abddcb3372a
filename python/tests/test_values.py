"""Messages as values, and back."""

from __future__ import annotations

import dataclasses
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from conftest import pair

import coalloc
from coalloc import CoAllocationRequest, Reason, SiteRequest, gbps, hours, mbps, messages, seconds
from coalloc._value import Value, fields_of, from_message, python_name, to_message
from coalloc.v1 import coordinator_pb2, types_pb2

AT = datetime(2027, 1, 31, 12, 0, 0, 250_001, tzinfo=timezone(timedelta(hours=9)))


def test_every_class_has_the_fields_of_its_message() -> None:
    kinds = [getattr(messages, name) for name in messages.__all__]
    values = [kind for kind in kinds if issubclass(kind, Value)]
    assert len(values) > 70
    for kind in values:
        own = [field.name for field in dataclasses.fields(kind)]
        assert own == [python_name(field) for field in fields_of(kind._message_type())], kind
        assert kind.__doc__


def test_a_value_becomes_a_message_and_back() -> None:
    request = pair(
        sites=(
            SiteRequest("a", cpus=4, pinned_to="tokyo", offset_us=seconds(60)),
            SiteRequest("b", cpus=1),
        ),
        links=(coalloc.LinkRequest("a", "b", bandwidth_bps=gbps(1), max_latency_us=1_500),),
        earliest_start=AT,
        manual_provision=False,
    )
    message = to_message(request, types_pb2.CoAllocationRequest)
    assert message.sites[0].pinned_to == "tokyo"
    assert not message.sites[1].HasField("pinned_to")
    assert message.links[0].max_latency.nanos == 1_500_000
    assert getattr(message.links[0], "from") == "a"
    assert message.earliest_start.ToDatetime(timezone.utc) == AT
    # Unset and false are not the same.
    assert message.HasField("manual_provision")
    assert not message.HasField("latest_start")
    again = from_message(CoAllocationRequest, message)
    assert again == request
    assert again.raw is message
    assert again.earliest_start is not None
    assert again.earliest_start.tzinfo is timezone.utc
    assert hash(again) == hash(request)
    assert CoAllocationRequest.from_json(request.to_json()) == request
    assert pickle.loads(pickle.dumps(again)) == again
    changed = dataclasses.replace(again, duration_us=hours(2))
    assert changed.raw.duration.seconds == 7_200


def test_what_is_ambiguous_or_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        to_message(pair(earliest_start=datetime(2027, 1, 31)), types_pb2.CoAllocationRequest)
    with pytest.raises(TypeError, match="a list or a tuple"):
        to_message(SiteRequest("a", excluded="tokyo"), types_pb2.SiteRequest)
    with pytest.raises(ValueError, match="CoAllocationRequest"):
        CoAllocationRequest.from_json('{"sites": 1}')
    with pytest.raises(coalloc.MissingField, match=r"Plan: window"):
        from_message(coalloc.Plan, types_pb2.Plan(digest="7"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair().duration_us = 1  # type: ignore[misc]


def test_what_a_newer_coordinator_knows_is_kept() -> None:
    message = types_pb2.Refusal.FromString(b"\x08\xe7\x07")
    refusal = from_message(coalloc.Refusal, message)
    assert (refusal.reason, refusal.reason.name) == (999, "UNKNOWN_999")
    assert refusal.raw.SerializeToString() == message.SerializeToString()
    assert Reason(1) is Reason.INSUFFICIENT_CAPACITY
    answer = coordinator_pb2.WatchResponse()
    assert answer.WhichOneof("what") is None


def test_units_are_exact() -> None:
    assert (hours(1.5), seconds(0.1), gbps(2.5), mbps(300)) == (
        5_400_000_000,
        100_000,
        2_500_000_000,
        300_000_000,
    )
    for unit, number in ((seconds, 1e-7), (hours, -1), (mbps, 0.0000001)):
        with pytest.raises(ValueError, match="whole number"):
            unit(number)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sites": [SiteRequest("a", cpus="4")]}, r"SiteRequest\.cpus: '4' is not allowed"),  # type: ignore[arg-type]
        ({"sites": [SiteRequest("a", cpus=-4)]}, r"SiteRequest\.cpus: -4 is not allowed"),
        ({"duration_us": timedelta(hours=1)}, r"duration_us: .* such as coalloc\.hours\(1\)"),
        ({"earliest_start": "now"}, r"earliest_start: 'now' .* a datetime with tzinfo"),
        ({"sites": ["a"]}, r"CoAllocationRequest\.sites: 'a' is not allowed"),
    ],
)
def test_a_value_of_another_type_is_told_with_its_field(wrong: dict[str, Any], said: str) -> None:
    request = CoAllocationRequest(**{"sites": [], "duration_us": hours(1), **wrong})
    with pytest.raises((TypeError, ValueError), match=said):
        to_message(request, types_pb2.CoAllocationRequest)


def test_a_word_of_an_enum_may_be_a_text() -> None:
    options = coalloc.PlanOptions(objectives=["PRICE"])  # type: ignore[list-item]
    assert options._raw_as(types_pb2.PlanOptions).objectives == [messages.Objective.PRICE]
    with pytest.raises(ValueError, match=r"one of Objective\.UNSPECIFIED"):
        to_message(coalloc.PlanOptions(objectives=["CHEAP"]), types_pb2.PlanOptions)  # type: ignore[list-item]
