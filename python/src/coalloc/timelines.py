"""Timelines as SVG: a row for each resource, a bar for each window. Notebooks show them for plans, reservations and tables.

An SVG stands alone: no script, no font of its own, no outside request. Colours have enough contrast on white, every bar says in
words what it is, and the same value gives the same text.

Left out: charts of numbers (`coalloc[pandas]` gives frames to plot).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from html import escape

from coalloc._tables import AvailabilityTable
from coalloc.messages import (
    Plan,
    PlanResponse,
    Reservation,
    Segment,
    TaskPlan,
    TaskReceipt,
    WorkflowPlan,
    WorkflowReceipt,
)

_WIDTH = 760
_ROW = 26
_HEAD = 46
_LABEL_CHARACTERS_MAX = 40
# Each is told from the others also by those who do not see all colours (Okabe and Ito).
_COLOURS = {"taken": "#0072b2", "travel": "#d55e00", "fits": "#007d5a", "refused": "#b9b9b9"}
_STEPS_S = [60, 300, 900, 1800, 3600, 7200, 21_600, 43_200, 86_400, 172_800, 604_800]


@dataclass(frozen=True)
class Bar:
    """Something that lasts from one instant to another."""

    row: str
    """The label of its row: a resource."""
    start: datetime
    end: datetime
    text: str
    """What it is, in words."""
    colour: str = "taken"
    """taken, travel, fits or refused."""
    label: str = ""
    """What is written in it, if there is room."""


@dataclass(frozen=True)
class Timeline:
    """Bars over time, as a drawing."""

    bars: tuple[Bar, ...]
    title: str

    @property
    def svg(self) -> str:
        """The drawing: a whole SVG document."""
        return draw(self.bars, self.title)

    def _repr_svg_(self) -> str:
        return self.svg


def timeline_of(value: object) -> Timeline | None:
    """The timeline of a plan, a reservation, a task, a workflow, a table, or of several of them; None: it has none."""
    match value:
        case Plan():
            return Timeline(_segments(value.segments), "plan")
        case PlanResponse():
            return timeline_of(value.plans[0]) if value.plans else None
        case Reservation():
            title = f"{value.request_id or value.id}: {value.state.name.lower()}"
            return Timeline(_segments(value.plan.segments), title) if value.plan else None
        case TaskPlan():
            return Timeline(_task(value), f"task at {value.cluster}")
        case TaskReceipt():
            return timeline_of(value.plan)
        case WorkflowPlan():
            return Timeline(_workflow(value), "workflow")
        case WorkflowReceipt():
            return timeline_of(value.plan)
        case AvailabilityTable():
            return Timeline(_table(value), "when it fits") if value.rows else None
        case list() | tuple():
            found = [one for one in map(timeline_of, value) if one is not None]
            bars = tuple(bar for one in found for bar in one.bars)
            return Timeline(bars, f"{len(found)} timelines") if bars else None
    return None


def _segments(segments: Iterable[Segment]) -> tuple[Bar, ...]:
    return tuple(
        Bar(
            one.resource,
            one.window.start,
            one.window.end,
            f"{one.amount} of {one.resource} at {one.resource_manager}",
            label=_amount(one.amount),
        )
        for one in segments
    )


def _task(plan: TaskPlan) -> tuple[Bar, ...]:
    run = Bar(plan.cluster, plan.run.start, plan.run.end, f"run on {plan.cpus} CPUs", label="run")
    legs = [
        Bar(
            leg.path, leg.window.start, leg.window.end, f"{leg.from_} to {leg.to}", "travel", "send"
        )
        for leg in (*plan.legs, *plan.output_legs)
    ]
    return (*legs, run)


def _workflow(plan: WorkflowPlan) -> tuple[Bar, ...]:
    runs = [
        Bar(
            one.name,
            one.window.start,
            one.window.end,
            f"{one.cpus} CPUs at {one.site}",
            label=one.site,
        )
        for one in plan.activities
    ]
    travels = [
        Bar(
            one.data,
            one.window.start,
            one.window.end,
            f"{one.from_} to {one.to}, {one.rate_bps} bit/s",
            "travel",
            "send",
        )
        for one in plan.transfers
    ]
    return (*runs, *travels)


def _table(table: AvailabilityTable) -> tuple[Bar, ...]:
    step = timedelta(microseconds=table.step_us)
    bars = []
    for row in table.rows:
        where = f"fits at {', '.join(row.sites)}"
        why = row.refusal.detail if row.refusal else ""
        start = row.window.start
        text, colour = (where, "fits") if row.fits else (why, "refused")
        bars.append(Bar("starts", start, start + step, text, colour, "fits" if row.fits else ""))
    return tuple(bars)


def _amount(amount: int) -> str:
    for unit, word in ((10**9, " G"), (10**6, " M")):
        if amount >= unit and amount % (unit // 10) == 0:
            return f"{amount / unit:g}{word}"
    return str(amount)


def _clock(at: datetime, is_dated: bool) -> str:
    return at.strftime("%m-%d %H:%M" if is_dated else "%H:%M")


def _ticks(start: datetime, end: datetime) -> list[datetime]:
    """At most eight instants that are round in UTC."""
    length_s = (end - start).total_seconds()
    step_s = next((step for step in _STEPS_S if length_s / step <= 7), 604_800)
    while length_s / step_s > 7:
        step_s *= 2
    first = -(-start.timestamp() // step_s) * step_s
    count = int((end.timestamp() - first) // step_s) + 1
    return [datetime.fromtimestamp(first + step_s * index, timezone.utc) for index in range(count)]


def lanes(bars: Iterable[Bar]) -> list[tuple[Bar, int]]:
    """Each bar with the number of its lane, from the top. Bars of one row that overlap have lanes of their own, side by side."""
    by_row: dict[str, list[Bar]] = {}
    for bar in bars:
        by_row.setdefault(bar.row, []).append(bar)
    placed: list[tuple[Bar, int]] = []
    first = 0
    for row in by_row.values():
        ends: list[datetime] = []
        for bar in sorted(row, key=lambda bar: (bar.start, bar.end)):
            free = next((lane for lane, end in enumerate(ends) if end <= bar.start), len(ends))
            ends[free : free + 1] = [bar.end]
            placed.append((bar, first + free))
        first += len(ends)
    return placed


def draw(bars: Iterable[Bar], title: str) -> str:
    """Bars as a whole SVG document; without bars, it says that there is nothing."""
    bars = tuple(bars)
    placed = lanes(bars)
    rows: dict[int, str] = {}
    for bar, lane in placed:
        # The first bar of a row is in its first lane.
        if bar.row not in rows.values():
            rows[lane] = bar.row
    height = _HEAD + _ROW * max(1, len({lane for _, lane in placed})) + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12"><title>{escape(title)}</title>'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    )
    if not bars:
        return f'{head}<text x="8" y="{_HEAD}" fill="#333333">nothing</text></svg>'
    start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    length_s = max((end - start).total_seconds(), 1e-6)
    labels = {lane: _shortened(row) for lane, row in rows.items()}
    left = min(300, 24 + 7 * max(len(label) for label in labels.values()))
    scale = (_WIDTH - left - 28) / length_s

    def across(at: datetime) -> float:
        return left + (at - start).total_seconds() * scale

    is_dated = length_s > 86_400
    parts = [head]
    zone = start.astimezone(timezone.utc).strftime("%Y-%m-%d")
    parts.append(f'<text x="8" y="16" fill="#333333">{zone} UTC</text>')
    for tick in _ticks(start, end):
        x = across(tick)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 8}" y2="{height - 8}" stroke="#dddddd"/>'
            f'<text x="{x:.1f}" y="{_HEAD - 12}" text-anchor="middle" fill="#333333">{_clock(tick, is_dated)}</text>'
        )
    for lane, label in labels.items():
        y = _HEAD + _ROW * lane + 16
        parts.append(f'<text x="8" y="{y}" fill="#111111">{escape(label)}</text>')
    for bar, lane in placed:
        x, y = across(bar.start), _HEAD + _ROW * lane + 3
        width = max(1.0, across(bar.end) - x)
        told = f"{bar.row}: {bar.text}, {_range(bar)}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_ROW - 8}" fill="{_COLOURS[bar.colour]}" '
            f'stroke="#ffffff" stroke-width="0.5"><title>{escape(told)}</title></rect>'
        )
        if bar.label and width > 8 * len(bar.label) + 8:
            parts.append(
                f'<text x="{x + width / 2:.1f}" y="{y + 13}" text-anchor="middle" fill="#ffffff" '
                f'pointer-events="none">{escape(bar.label)}</text>'
            )
    return "".join(parts) + "</svg>"


def _shortened(text: str) -> str:
    cut = _LABEL_CHARACTERS_MAX
    return text if len(text) <= cut else text[: cut - 1] + "…"


def _range(bar: Bar) -> str:
    start, end = (at.astimezone(timezone.utc) for at in (bar.start, bar.end))
    return f"{start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC"
