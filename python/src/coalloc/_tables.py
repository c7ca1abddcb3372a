"""When would a request fit? A table over many starts, and the program that fills it.

Left out: what a plan is (`coalloc.messages`). Source: cli/src/user/find_window.rs.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from coalloc import _calls
from coalloc._exchange import Patience
from coalloc._program import Program
from coalloc.messages import CoAllocationRequest, Plan, PlanOptions, Refusal, Window

if TYPE_CHECKING:
    import pandas

# The most starts that one call plans.
_FRAMES_MAX = 256
# The most starts of one table.
STARTS_MAX = 10_000


@dataclass(frozen=True)
class AvailabilityRow:
    """What is so at one start."""

    window: Window
    """When the request would take place."""
    plan: Plan | None
    """The best plan. None: it does not fit, and `refusal` says why."""
    refusal: Refusal | None
    """Why it does not fit."""

    @property
    def fits(self) -> bool:
        """Whether the request fits."""
        return self.plan is not None

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the plan, in the order of the request."""
        return tuple(one.at for one in self.plan.placements) if self.plan else ()


@dataclass(frozen=True)
class AvailabilityTable:
    """At which starts a request would fit, as it was when each was tried. Nothing is held.

    Between two starts that were tried, nothing is known.
    """

    rows: tuple[AvailabilityRow, ...]
    """One for each start, earliest first."""
    step_us: int
    """Time between two starts, in microseconds."""
    unreachable: tuple[str, ...]
    """Resource managers that did not answer; what they have counted as not free."""

    @property
    def first(self) -> AvailabilityRow | None:
        """The first start that fits. None: none does."""
        return next((row for row in self.rows if row.fits), None)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each start; needs `coalloc[pandas]`."""
        from coalloc.frames import to_frame

        return to_frame(self)

    def _repr_svg_(self) -> str | None:
        from coalloc.timelines import timeline_of

        timeline = timeline_of(self)
        return None if timeline is None else timeline.svg


def availability_table(
    request: CoAllocationRequest,
    first: datetime,
    last: datetime,
    step_us: int,
    options: PlanOptions | None,
    patience: Patience,
) -> Program[AvailabilityTable]:
    """Plans a request at one start after the other.

    Raises:
        ValueError: there would be no start, or more than `STARTS_MAX`.
    """
    if step_us < 1:
        raise ValueError(f"step_us: {step_us} is not allowed; allowed: 1 and more, in microseconds")
    count = (last - first) // timedelta(microseconds=step_us) + 1
    if not 1 <= count <= STARTS_MAX:
        raise ValueError(f"first, last and step_us make {count} starts; allowed: 1 to {STARTS_MAX}")
    rows: dict[datetime, AvailabilityRow] = {}
    unreachable: set[str] = set()
    for begin in range(0, count, _FRAMES_MAX):
        end = min(begin + _FRAMES_MAX, count) - 1
        page = dataclasses.replace(
            request,
            earliest_start=first + timedelta(microseconds=step_us * begin),
            latest_start=first + timedelta(microseconds=step_us * end),
        )
        asked = dataclasses.replace(
            options or PlanOptions(), frames=end - begin + 1, plans=None, alternatives=False
        )
        answer = yield from _calls.plan(page, asked, patience)
        unreachable.update(answer.unreachable)
        for plan in answer.plans:
            rows[plan.window.start] = AvailabilityRow(plan.window, plan, None)
        for refused in answer.refused:
            row = AvailabilityRow(refused.window, None, refused.refusal)
            rows.setdefault(refused.window.start, row)
    ordered = tuple(rows[start] for start in sorted(rows))
    return AvailabilityTable(ordered, step_us, tuple(sorted(unreachable)))
