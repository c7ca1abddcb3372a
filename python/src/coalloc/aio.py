"""The client that awaits its answers (asyncio).

Left out: what the calls do, which both clients share (`coalloc._calls`).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

from coalloc import _calls, messages
from coalloc._awaiting import Channels, Run
from coalloc._connection import Settings, Token, new_id
from coalloc._program import (
    Emit,
    Program,
    Ready,
)
from coalloc._requests import report_message, revision_message
from coalloc._tables import AvailabilityTable, availability_table
from coalloc._watching import WatchPosition, watch
from coalloc.messages import (
    ActivityEvent,
    AllocateRequest,
    CoAllocationRequest,
    PlanOptions,
    PlanResponse,
    Reservation,
    ReservationEvent,
    ReservationState,
    TaskOptions,
    TaskReceipt,
    TaskRequest,
    TaskReservation,
    Workflow,
    WorkflowOptions,
    WorkflowReceipt,
)
from coalloc.v1 import coordinator_pb2

if TYPE_CHECKING:
    import pandas

T = TypeVar("T")


class AsyncReservations(AsyncIterator[Reservation]):
    """Reservations that are read page by page while they are iterated over."""

    def __init__(self, run: Run[None]) -> None:
        self._run = run

    async def __anext__(self) -> Reservation:
        step = await self._run.step()
        if not isinstance(step, Emit):
            raise StopAsyncIteration
        return cast(Reservation, step.item)

    async def to_frame(self) -> pandas.DataFrame:
        """Reads all that is left into a data frame; needs `coalloc[pandas]`."""
        from coalloc.frames import to_frame

        return to_frame([one async for one in self])


class AsyncWatch(AsyncIterator[ReservationEvent]):
    """Events as they happen, for ever. A connection that breaks is made again, and nothing is missed or told twice.

    It begins with `ready` or with the first event that is awaited. The end of an `async with` block ends it, which also begins with
    `ready`.
    """

    def __init__(self, run: Run[None], position: WatchPosition) -> None:
        self._run = run
        self._position = position
        self._is_ready = False

    @property
    def resume_token(self) -> str:
        """With this, another watch goes on after the last event that this one has handed out."""
        return self._position.resume_token

    async def ready(self) -> None:
        """Returns once the watch has begun: nothing that happens from here on is missed."""
        while not self._is_ready:
            self._is_ready = isinstance(await self._run.step(), Ready)

    async def __anext__(self) -> ReservationEvent:
        await self.ready()
        step = await self._run.step()
        if not isinstance(step, Emit):
            raise StopAsyncIteration
        return cast(ReservationEvent, step.item)

    def close(self) -> None:
        """Ends the watch, which nobody may be awaiting: cancel that task instead."""
        self._run.cancel()

    async def __aenter__(self) -> AsyncWatch:
        await self.ready()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClient:
    """A client of a coordinator for asyncio.

    Every call is made again for `patience_s` when nobody answers, and a call that changes something is made again with the same id,
    so that nothing is done twice.

    Its methods are those of `Client`, and their docstrings are there. Use it in an `async with` block, or close it.

    Args:
        address: `host:port` of the coordinator, or of all processes that share its ledger, with commas between. Unless given,
            the environment variable COALLOC_GRC, or 127.0.0.1:7000.
        certs: Folder with the caller's identity as `coalloc init` writes it: certificate.pem, key.pem and trust/. It is read again
            with every new connection. Unless given, the environment variable COALLOC_IDENTITY; without that, or when it is empty,
            calls are in plain text.
        token: A token (JWT) of a login service, or a function that returns one, which is called with every call.
        domain: The domain of the coordinator: only the authorities in trust/DOMAIN.pem are believed. Unless given, the domain of
            the certificate.
        server_name: The host name in the coordinator's certificate, if it is not that of the address.
        patience_s: For how long a call is made again after it first failed, in seconds.

    Raises:
        ValueError: an argument or a file is not what it should be.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        certs: str | os.PathLike[str] | None = None,
        token: Token | None = None,
        domain: str | None = None,
        server_name: str | None = None,
        patience_s: float = 30.0,
    ) -> None:
        settings = Settings.of(address, certs, token, domain, server_name, patience_s)
        self._patience = settings.patience
        self._channels = Channels(settings)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection."""
        await self._channels.close()

    async def _run(self, program: Program[T]) -> T:
        return await Run(self._channels, program).result()

    async def plan(
        self, request: CoAllocationRequest, options: PlanOptions | None = None
    ) -> PlanResponse:
        """As `Client.plan`."""
        return await self._run(_calls.plan(request, options, self._patience))

    async def reserve(
        self,
        request: CoAllocationRequest,
        options: PlanOptions | None = None,
        *,
        request_id: str | None = None,
        plan_digest: str = "",
    ) -> Reservation:
        """As `Client.reserve`."""
        return await self._run(
            _calls.reserve(request, options, request_id or new_id(), plan_digest, self._patience)
        )

    async def allocate(
        self, request: AllocateRequest, *, request_id: str | None = None
    ) -> Reservation:
        """As `Client.allocate`."""
        return await self._run(
            _calls.allocate(request, request_id or request.request_id or new_id(), self._patience)
        )

    async def modify(
        self,
        id: str,
        request: CoAllocationRequest,
        options: PlanOptions | None = None,
        *,
        change_id: str | None = None,
        may_move: bool = False,
    ) -> Reservation:
        """As `Client.modify`."""
        return await self._run(
            _calls.modify(id, request, options, change_id or new_id(), may_move, self._patience)
        )

    async def release(self, id: str, *, user: str = "") -> Reservation:
        """As `Client.release`."""
        return await self._run(_calls.release(id, user, self._patience))

    async def release_rest(
        self, id: str, *, change_id: str | None = None, user: str = ""
    ) -> Reservation:
        """As `Client.release_rest`."""
        return await self._run(_calls.release_rest(id, change_id or new_id(), user, self._patience))

    async def provision(
        self, id: str, *, change_id: str | None = None, user: str = ""
    ) -> Reservation:
        """As `Client.provision`."""
        return await self._run(
            _calls.provision(id, True, change_id or new_id(), user, self._patience)
        )

    async def deprovision(
        self, id: str, *, change_id: str | None = None, user: str = ""
    ) -> Reservation:
        """As `Client.deprovision`."""
        return await self._run(
            _calls.provision(id, False, change_id or new_id(), user, self._patience)
        )

    async def get(self, id: str) -> Reservation:
        """As `Client.get`."""
        return await self._run(_calls.get(id, self._patience))

    async def servers(
        self,
        start: datetime,
        end: datetime,
        *,
        at_least: int = 0,
        properties: Sequence[str] = (),
        site: str = "",
        limit: int | None = None,
    ) -> messages.SearchServersResponse:
        """As `Client.servers`."""
        return await self._run(
            _calls.servers(
                messages.Window(start=start, end=end),
                at_least,
                properties,
                site,
                limit,
                self._patience,
            )
        )

    async def plan_task(
        self, task: TaskRequest, options: TaskOptions | None = None
    ) -> messages.TaskPlanResponse:
        """As `Client.plan_task`."""
        return await self._run(_calls.plan_task(task, options, self._patience))

    async def submit_task(
        self,
        task: TaskRequest,
        options: TaskOptions | None = None,
        *,
        reservation: TaskReservation = TaskReservation.UNSPECIFIED,
        tries: int | None = None,
        request_id: str | None = None,
    ) -> TaskReceipt:
        """As `Client.submit_task`."""
        return await self._run(
            _calls.submit_task(
                task, options, reservation, tries, request_id or new_id(), self._patience
            )
        )

    async def picture(
        self,
        *,
        bandwidth_bps: int,
        cpus: int,
        slot_us: int,
        slots: int,
        first: datetime | None = None,
    ) -> messages.ReadPictureResponse:
        """As `Client.picture`."""
        return await self._run(
            _calls.picture(bandwidth_bps, cpus, slot_us, slots, first, self._patience)
        )

    async def plan_workflow(
        self, workflow: Workflow, options: WorkflowOptions | None = None
    ) -> messages.PlanWorkflowResponse:
        """As `Client.plan_workflow`."""
        return await self._run(_calls.plan_workflow(workflow, options, self._patience))

    async def submit_workflow(
        self,
        workflow: Workflow,
        options: WorkflowOptions | None = None,
        *,
        request_id: str | None = None,
    ) -> WorkflowReceipt:
        """As `Client.submit_workflow`."""
        return await self._run(
            _calls.submit_workflow(workflow, options, request_id or new_id(), self._patience)
        )

    async def workflow(self, id: str) -> WorkflowReceipt:
        """As `Client.workflow`."""
        return await self._run(_calls.whole_workflow(id, None, "", self._patience))

    async def report_activity(
        self,
        id: str,
        activity: str,
        event: ActivityEvent,
        *,
        report_id: str | None = None,
        user: str = "",
        until: datetime | None = None,
        time: datetime | None = None,
        excluded: Sequence[str] = (),
    ) -> messages.ReportActivityResponse:
        """As `Client.report_activity`."""
        return await self._run(
            _calls.report_activity(
                report_message(
                    id, activity, event, report_id or new_id(), user, until, time, excluded
                ),
                self._patience,
            )
        )

    async def revise_workflow(
        self,
        id: str,
        *,
        change_id: str | None = None,
        user: str = "",
        excluded: Sequence[str] = (),
        again: Sequence[str] = (),
        deadline: datetime | None = None,
        plan_only: bool = False,
    ) -> messages.ReviseWorkflowResponse:
        """As `Client.revise_workflow`."""
        return await self._run(
            _calls.revise_workflow(
                revision_message(
                    id, change_id or new_id(), user, excluded, again, deadline, plan_only
                ),
                self._patience,
            )
        )

    async def federation(self) -> messages.DescribeFederationResponse:
        """As `Client.federation`."""
        return await self._run(
            _calls.read(
                messages.DescribeFederationResponse,
                "DescribeFederation",
                coordinator_pb2.DescribeFederationRequest(),
                self._patience,
            )
        )

    async def quota(self, user: str = "") -> messages.GetQuotaResponse:
        """As `Client.quota`."""
        return await self._run(
            _calls.read(
                messages.GetQuotaResponse,
                "GetQuota",
                coordinator_pb2.GetQuotaRequest(user=user),
                self._patience,
            )
        )

    async def data_plane(self, id: str) -> messages.GetDataPlaneResponse:
        """As `Client.data_plane`."""
        return await self._run(
            _calls.read(
                messages.GetDataPlaneResponse,
                "GetDataPlane",
                coordinator_pb2.GetDataPlaneRequest(id=id),
                self._patience,
            )
        )

    async def availability_table(
        self,
        request: CoAllocationRequest,
        *,
        first: datetime,
        last: datetime,
        step_us: int,
        options: PlanOptions | None = None,
    ) -> AvailabilityTable:
        """As `Client.availability_table`."""
        return await self._run(
            availability_table(request, first, last, step_us, options, self._patience)
        )

    def list(
        self,
        *,
        user: str = "",
        states: Sequence[ReservationState] = (),
        series: str = "",
        page_size: int | None = None,
    ) -> AsyncReservations:
        """As `Client.list`, for `async for`."""
        program = _calls.listing(user, states, series, page_size, self._patience)
        return AsyncReservations(Run(self._channels, program))

    def watch(self, id: str = "", *, user: str = "", resume_token: str = "") -> AsyncWatch:
        """As `Client.watch`, for `async for`; it begins with the first event that is awaited, or with `AsyncWatch.ready`."""
        position = WatchPosition(resume_token)
        return AsyncWatch(Run(self._channels, watch(id, user, position, self._patience)), position)
