"""The client that awaits its answers (asyncio).

Left out: what the calls do, which both clients share (`coalloc._calls`).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import grpc
import grpc.aio

from coalloc import _calls, _connection, messages
from coalloc._connection import CALL_TIME_MAX_S, Leader, Settings, Token, new_id
from coalloc._program import (
    Answer,
    Call,
    Emit,
    Failed,
    MoveOn,
    Next,
    Open,
    Outcome,
    Pause,
    Program,
    Ready,
    Step,
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


class Channels:
    """The connection of a client, made when it is needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._leader = Leader(settings.addresses)
        self._channel: tuple[int, grpc.aio.Channel] | None = None
        # Connections that failed: others may have calls on them.
        self._left: list[grpc.aio.Channel] = []
        self._is_closed = False

    def _channel_now(self) -> tuple[int, grpc.aio.Channel]:
        if self._is_closed:
            raise RuntimeError("this client is closed")
        if self._channel is None:
            number, target = self._leader.connection, self._leader.address
            options = self.settings.options()
            credentials = self.settings.credentials()
            channel = (
                grpc.aio.insecure_channel(target, options)
                if credentials is None
                else grpc.aio.secure_channel(target, credentials, options)
            )
            self._channel = (number, channel)
        return self._channel

    async def move_on(self, failed: int) -> None:
        """Connects anew with the next call."""
        if not self._leader.move_on(failed) or self._channel is None:
            return
        self._left.append(self._channel[1])
        self._channel = None
        # What was left longer ago than any call lasts is of no use to anybody.
        while len(self._left) > 8:
            await self._left.pop(0).close()

    async def call(self, call: Call) -> Answer | Failed:
        """Makes one call."""
        number, channel = self._channel_now()
        method = channel.unary_unary(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        try:
            answer = await method(call.message, timeout=CALL_TIME_MAX_S, metadata=metadata)
        except grpc.RpcError as error:
            return _connection.failed(error, number)
        return _connection.answered(answer, call)

    def open(self, call: Call) -> Stream:
        """Begins a stream."""
        number, channel = self._channel_now()
        method = channel.unary_stream(
            call.path,
            request_serializer=type(call.message).SerializeToString,
            response_deserializer=call.answer.FromString,
        )
        metadata = self.settings.metadata(call.needs)
        return Stream(call, number, method(call.message, metadata=metadata))

    async def close(self) -> None:
        """Ends the connection; calls that wait end with an error."""
        self._is_closed = True
        if self._channel is not None:
            self._left.append(self._channel[1])
            self._channel = None
        while self._left:
            await self._left.pop().close()


class Stream:
    """A stream of answers."""

    def __init__(self, call: Call, connection: int, answers: Any) -> None:
        self._call = call
        self._connection = connection
        self._answers = answers

    async def next(self) -> Answer | Failed:
        """Awaits the next answer."""
        try:
            answer = await self._answers.read()
        except grpc.RpcError as error:
            return _connection.failed(error, self._connection)
        if answer is grpc.aio.EOF:
            return _connection.ended(self._connection)
        return _connection.answered(answer, self._call)

    def cancel(self) -> None:
        """Ends the stream."""
        self._answers.cancel()


class Run(Generic[T]):
    """A program that is being carried out."""

    def __init__(self, channels: Channels, program: Program[T]) -> None:
        self._channels = channels
        self._program = program
        self._outcome: Outcome | None = None
        # The step that is being carried out, and where.
        self._step: Step | None = None
        self._task: asyncio.Task[Outcome] | None = None
        self._stream: Stream | None = None
        self.value: T | None = None
        """What the program has returned."""

    async def step(self) -> Emit | Ready | None:
        """Goes on to the next item, or to where the stream has begun. None: the program has ended.

        Whoever waits here may be cancelled, by `asyncio.wait_for` for example: the step goes on, and the next call waits for it.
        """
        while True:
            if self._step is None:
                outcome = self._outcome
                try:
                    step = next(self._program) if outcome is None else self._program.send(outcome)
                except StopIteration as end:
                    self.value = end.value
                    return None
                if isinstance(step, (Emit, Ready)):
                    self._outcome = _connection.nothing()
                    return step
                self._step = step
                self._task = asyncio.ensure_future(self._carry_out(step))
            if self._task is not None:
                self._outcome = await asyncio.shield(self._task)
            self._step = self._task = None

    async def _carry_out(self, step: Step) -> Outcome:
        match step:
            case Call():
                return await self._channels.call(step)
            case Open():
                self._stream = self._channels.open(step.call)
            case Next():
                if self._stream is None:
                    raise RuntimeError("the stream was not opened")
                return await self._stream.next()
            case Pause():
                await asyncio.sleep(step.seconds)
            case MoveOn():
                await self._channels.move_on(step.connection)
        return _connection.nothing()

    async def result(self) -> T:
        """Carries out the whole program; a call ends when whoever waits for it is cancelled."""
        try:
            while await self.step() is not None:
                pass
        finally:
            if self._task is not None:
                self._task.cancel()
        return cast(T, self.value)

    def cancel(self) -> None:
        """Ends the program."""
        self._program.close()
        if self._task is not None:
            self._task.cancel()
        if self._stream is not None:
            self._stream.cancel()


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
