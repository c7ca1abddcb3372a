"""Timelines, data frames, and the results of experiments."""

from __future__ import annotations

import builtins
import dataclasses
import xml.etree.ElementTree as ElementTree
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from conftest import pair
from federation import PROGRAM

import coalloc
from coalloc import (
    AvailabilityRow,
    AvailabilityTable,
    Bottleneck,
    Plan,
    Refusal,
    Reservation,
    ReservationState,
    Segment,
    TaskLeg,
    TaskPlan,
    TaskReceipt,
    Window,
    minutes,
    timeline_of,
)
from coalloc.experiments import ExperimentError, read_results, run_experiment
from coalloc.frames import rows_of, to_frame
from coalloc.timelines import Bar, lanes

START = datetime(2027, 2, 1, 9, tzinfo=timezone.utc)
HOUR = Window(start=START, end=START + timedelta(hours=1))
LATER = Window(start=START + timedelta(minutes=30), end=START + timedelta(hours=2))
PLAN = Plan(
    digest="d",
    window=HOUR,
    segments=(
        Segment("tokyo", 4, resource_manager="crm-tokyo", window=HOUR),
        Segment('<b>"osaka"&', 2, resource_manager="crm-osaka", window=LATER),
        Segment("tokyo", 1, resource_manager="crm-tokyo", window=LATER),
    ),
)
RESERVATION = Reservation(
    id="grc-1",
    request_id="mine",
    user="alice",
    state=ReservationState.CONFIRMED,
    plan=PLAN,
    created=START,
)
TASK = TaskPlan(
    cluster="osaka",
    cpus=8,
    run=LATER,
    legs=(TaskLeg("tokyo-osaka", "tokyo", "osaka", window=HOUR),),
    departure=START,
    arrival=HOUR.end,
)
SHORT = Refusal(
    detail="short", bottleneck=Bottleneck(resources=("tokyo",), requested=9, available=6)
)
TABLE = AvailabilityTable(
    (AvailabilityRow(HOUR, None, SHORT), AvailabilityRow(LATER, PLAN, None)), minutes(30), ()
)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(value: object) -> tuple[list[str], list[float]]:
    """What the bars of a timeline say, and their widths."""
    timeline = timeline_of(value)
    assert timeline is not None
    root = ElementTree.fromstring(timeline.svg)
    bars = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    titles = [one.findtext(f"{SVG}title") or "" for one in bars]
    return titles, [float(one.attrib["width"]) for one in bars]


def test_every_bar_says_what_it_is_and_is_as_wide_as_it_lasts() -> None:
    titles, widths = drawn(RESERVATION)
    assert (
        titles[0]
        == "tokyo: 4 of tokyo at crm-tokyo, 2027-02-01 09:00:00 to 2027-02-01 10:00:00 UTC"
    )
    assert titles[2].startswith('<b>"osaka"&: 2 of')
    assert widths[2] == pytest.approx(1.5 * widths[0], abs=0.2)
    svg = RESERVATION._repr_svg_()
    assert svg is not None
    assert svg == RESERVATION._repr_svg_()
    assert "<b>" not in svg
    assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
    titles, _ = drawn(TaskReceipt(plan=TASK))
    assert [one.split(":")[0] for one in titles] == ["tokyo-osaka", "osaka"]
    titles, _ = drawn(TABLE)
    assert titles[0].startswith("starts: short, ")
    assert len(drawn([RESERVATION, TASK])[0]) == 5


def test_bars_that_overlap_do_not_hide_one_another() -> None:
    def bar(row: str, start_min: int, end_min: int) -> Bar:
        return Bar(
            row, START + timedelta(minutes=start_min), START + timedelta(minutes=end_min), "t"
        )

    bars = [bar("a", 0, 30), bar("a", 10, 20), bar("b", 0, 5), bar("a", 30, 40), bar("a", 15, 60)]
    assert [(one.row, lane) for one, lane in lanes(bars)] == [
        ("a", 0),
        ("a", 1),
        ("a", 2),
        ("a", 0),
        ("b", 3),
    ]


def test_what_has_no_timeline_is_not_drawn() -> None:
    empty = dataclasses.replace(RESERVATION, plan=None)
    undrawn: list[object] = [empty, pair(), SHORT, TaskReceipt(), []]
    for value in undrawn:
        assert timeline_of(value) is None
    assert empty._repr_svg_() is None
    assert "nothing" in coalloc.Timeline((), "t").svg


def test_a_timeline_has_few_ticks_whatever_it_spans() -> None:
    for length in (timedelta(microseconds=1), timedelta(hours=7), timedelta(days=3660)):
        window = Window(start=START, end=START + length)
        plan = dataclasses.replace(PLAN, segments=(Segment("a", 1, window=window),))
        assert plan._repr_svg_().count("<line") <= 8  # type: ignore[union-attr]


def test_values_become_rows() -> None:
    frame = RESERVATION.to_frame()
    assert list(frame.amount) == [4, 2, 1]
    assert set(frame.request_id) == {"mine"}
    assert str(frame.start.dt.tz) == "UTC"
    assert len(to_frame([RESERVATION, RESERVATION])) == 6
    assert list(TASK.to_frame().what) == ["send", "run"]
    table = TABLE.to_frame()
    assert list(table.fits) == [False, True]
    assert table.short_by[0] == 3
    assert rows_of(HOUR) == [{"start": HOUR.start, "end": HOUR.end}]
    assert rows_of(TaskReceipt()) == []
    with pytest.raises(TypeError, match="values of coalloc"):
        to_frame(7)


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'coalloc\[pandas\]'"):
        PLAN.to_frame()


def test_an_experiment_is_run_and_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    flags = {"small": True, "seeds": 1, "program": PROGRAM}
    results = run_experiment("decker-2007-load", out, **flags)  # type: ignore[arg-type]
    runs, summary = results.runs(), results.summary()
    assert len(runs) >= 2
    assert set(runs.seed) == {1}
    assert {"metric", "mean", "ci95"} <= set(summary.columns)
    assert results.report.startswith("#")
    assert "<svg" in results.plots[0]._repr_svg_()
    assert results.plot(results.plots[0].name) == results.plots[0]
    # The mean of every metric at a point is that of its runs.
    axes = [name for name in summary.columns if name in runs.columns]
    row = summary[summary["mean"].notna()].iloc[0]
    chosen = runs
    for axis in axes:
        chosen = chosen[chosen[axis] == row[axis]]
    assert chosen[row["metric"]].mean() == pytest.approx(row["mean"])
    with pytest.raises(ExperimentError, match="has no plot"):
        results.plot("none")
    with pytest.raises(ExperimentError, match="no-such-experiment"):
        run_experiment("no-such-experiment", tmp_path / "other", program=PROGRAM)
    with pytest.raises(ExperimentError, match=r"results\.jsonl"):
        read_results(tmp_path)
    with pytest.raises(ExperimentError, match="cannot be started"):
        run_experiment("x", tmp_path, program=tmp_path / "missing")
