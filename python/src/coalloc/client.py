"""The client that waits for its answers.

Left out: what the calls do, which both clients share (`coalloc._calls`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TypeVar, cast

from coalloc import _calls, messages
from coalloc._connection import Settings, Token, new_id
from coalloc._frameable import FrameableIterator
from coalloc._program import (
    Emit,
    Program,
    Ready,
)
from coalloc._requests import report_message, revision_message
from coalloc._tables import AvailabilityTable, availability_table
from coalloc._waiting import Channels, Run
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

T = TypeVar("T")


class Reservations(FrameableIterator[Reservation]):
    """Reservations that are read page by page while they are iterated over."""

    def __init__(self, run: Run[None]) -> None:
        self._run = run

    def __next__(self) -> Reservation:
        step = self._run.step()
        return cast(Reservation, step.item) if isinstance(step, Emit) else next(self)


class Watch(Iterator[ReservationEvent]):
    """Events as they happen, for ever. A connection that breaks is made again, and nothing is missed or told twice.

    It has begun when `Client.watch` returns. `close` ends it, also from another thread; so does the end of a `with` block.
    """

    def __init__(self, run: Run[None], position: WatchPosition) -> None:
        self._run = run
        self._position = position
        while not isinstance(self._run.step(), Ready):
            pass

    @property
    def resume_token(self) -> str:
        """With this, another watch goes on after the last event that this one has handed out."""
        return self._position.resume_token

    def __next__(self) -> ReservationEvent:
        step = self._run.step()
        return cast(ReservationEvent, step.item) if isinstance(step, Emit) else next(self)

    def close(self) -> None:
        """Ends the watch."""
        self._run.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Client:
    """A client of a coordinator.

    Every call is made again for `patience_s` when nobody answers, and a call that changes something is made again with the same id,
    so that nothing is done twice.

    Threads may share a client. Use it in a `with` block, or close it.

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

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._channels.close()

    def _run(self, program: Program[T]) -> T:
        return Run(self._channels, program).result()

    def plan(
        self, request: CoAllocationRequest, options: PlanOptions | None = None
    ) -> PlanResponse:
        """Plans a request and holds nothing. An answer without plans says why, and what would fit instead."""
        return self._run(_calls.plan(request, options, self._patience))

    def reserve(
        self,
        request: CoAllocationRequest,
        options: PlanOptions | None = None,
        *,
        request_id: str | None = None,
        plan_digest: str = "",
    ) -> Reservation:
        """Plans a request and reserves it, at all resource managers or at none.

        Args:
            request: What is wanted.
            options: How plans are searched for. Alternatives are searched for only if they say so.
            request_id: An id of this request; a random UUID unless given. The same request with the same id is reserved once.
            plan_digest: Reserve exactly the plan with this digest, which `plan` has answered for the same request.

        Raises:
            coalloc.Refused: nothing was reserved; its values say what was short, where and by how much.
            coalloc.Indefinite: the outcome is not known; it says where to look.
            coalloc.InvalidRequest: a field is not valid; it says which, and what is allowed.
            coalloc.OtherContent: `request_id` was used for another request.
        """
        return self._run(
            _calls.reserve(request, options, request_id or new_id(), plan_digest, self._patience)
        )

    def allocate(self, request: AllocateRequest, *, request_id: str | None = None) -> Reservation:
        """Reserves whole servers at the first start at which enough are idle, or exactly those that are picked.

        Raises:
            coalloc.Refused: nothing was reserved.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(
            _calls.allocate(request, request_id or request.request_id or new_id(), self._patience)
        )

    def modify(
        self,
        id: str,
        request: CoAllocationRequest,
        options: PlanOptions | None = None,
        *,
        change_id: str | None = None,
        may_move: bool = False,
    ) -> Reservation:
        """Changes a reservation, also during its window. Either the whole new version is booked, or nothing changes.

        Args:
            id: The id of the reservation, or that of its request.
            request: The whole new version.
            options: How plans are searched for; unset fields stay as they were.
            change_id: An id of this change; a random UUID unless given.
            may_move: Whether sites that are in both versions may move elsewhere.

        Raises:
            coalloc.Refused: nothing has changed.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(
            _calls.modify(id, request, options, change_id or new_id(), may_move, self._patience)
        )

    def release(self, id: str, *, user: str = "") -> Reservation:
        """Ends a reservation and frees what it has booked. Releasing again does no harm.

        Raises:
            coalloc.NotFound: there is no such reservation.
            coalloc.Indefinite: it is being released, and not everybody has acknowledged it.
        """
        return self._run(_calls.release(id, user, self._patience))

    def release_rest(self, id: str, *, change_id: str | None = None, user: str = "") -> Reservation:
        """Gives back what is left of a reservation that has begun. What it had before stays booked and counted.

        Raises:
            coalloc.NotNow: it has not begun (`release` gives back all of it), or ends about now.
            coalloc.Refused: nothing has changed.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(_calls.release_rest(id, change_id or new_id(), user, self._patience))

    def provision(self, id: str, *, change_id: str | None = None, user: str = "") -> Reservation:
        """Lets the user in to the equipment of a reservation that was made with `manual_provision`.

        Raises:
            coalloc.Refused: nothing has changed.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(_calls.provision(id, True, change_id or new_id(), user, self._patience))

    def deprovision(self, id: str, *, change_id: str | None = None, user: str = "") -> Reservation:
        """Takes the equipment of a reservation from its user. It stays reserved.

        Raises:
            coalloc.Refused: nothing has changed.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(_calls.provision(id, False, change_id or new_id(), user, self._patience))

    def get(self, id: str) -> Reservation:
        """Reads one reservation, by its id or by that of its request.

        Raises:
            coalloc.NotFound: there is none.
        """
        return self._run(_calls.get(id, self._patience))

    def servers(
        self,
        start: datetime,
        end: datetime,
        *,
        at_least: int = 0,
        properties: Sequence[str] = (),
        site: str = "",
        limit: int | None = None,
    ) -> messages.SearchServersResponse:
        """Searches the servers that are idle from `start` to `end`. Holds nothing.

        Args:
            start: The servers are idle from here on.
            end: Until here.
            at_least: Only sites with at least so many such servers.
            properties: Only servers with all of these.
            site: Only this site; empty: all.
            limit: The most servers listed, 1 to 10,000; 1,000 unless given.
        """
        return self._run(
            _calls.servers(
                messages.Window(start=start, end=end),
                at_least,
                properties,
                site,
                limit,
                self._patience,
            )
        )

    def plan_task(
        self, task: TaskRequest, options: TaskOptions | None = None
    ) -> messages.TaskPlanResponse:
        """Plans a data transfer and a run together, and holds nothing."""
        return self._run(_calls.plan_task(task, options, self._patience))

    def submit_task(
        self,
        task: TaskRequest,
        options: TaskOptions | None = None,
        *,
        reservation: TaskReservation = TaskReservation.UNSPECIFIED,
        tries: int | None = None,
        request_id: str | None = None,
    ) -> TaskReceipt:
        """Plans a data transfer and a run together, and reserves the plan.

        Args:
            task: What is wanted.
            options: How it is planned.
            reservation: Two-phase or one-way; as the coordinator is configured unless given.
            tries: How often it is planned, when resource managers refuse.
            request_id: An id of this task; a random UUID unless given. The same task with the same id is reserved once.

        Raises:
            coalloc.Refused: nothing was reserved; `receipt` has every try.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(
            _calls.submit_task(
                task, options, reservation, tries, request_id or new_id(), self._patience
            )
        )

    def picture(
        self,
        *,
        bandwidth_bps: int,
        cpus: int,
        slot_us: int,
        slots: int,
        first: datetime | None = None,
    ) -> messages.ReadPictureResponse:
        """What the coordinator believes is free for tasks, and how old each part is. For operators and auditors.

        Args:
            bandwidth_bps: A path counts as free where it has so much, in bit/s.
            cpus: A site counts as free where it has so many CPUs.
            slot_us: The length of each slot, 1 to 86,400,000,000 microseconds (a day).
            slots: Their number, 1 to 4,096.
            first: Where the first slot begins; now unless given.

        Raises:
            coalloc.NotNow: the coordinator plans tasks centrally, and keeps no picture.
        """
        return self._run(_calls.picture(bandwidth_bps, cpus, slot_us, slots, first, self._patience))

    def plan_workflow(
        self, workflow: Workflow, options: WorkflowOptions | None = None
    ) -> messages.PlanWorkflowResponse:
        """Plans a workflow and holds nothing."""
        return self._run(_calls.plan_workflow(workflow, options, self._patience))

    def submit_workflow(
        self,
        workflow: Workflow,
        options: WorkflowOptions | None = None,
        *,
        request_id: str | None = None,
    ) -> WorkflowReceipt:
        """Plans a workflow and reserves it whole. The answer has the whole plan, however many pages it takes.

        Raises:
            coalloc.Refused: nothing was reserved; `receipt` has every try.
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(
            _calls.submit_workflow(workflow, options, request_id or new_id(), self._patience)
        )

    def workflow(self, id: str) -> WorkflowReceipt:
        """Reads a workflow with its whole plan.

        Raises:
            coalloc.NotFound: there is none of that id.
        """
        return self._run(_calls.whole_workflow(id, None, "", self._patience))

    def report_activity(
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
        """Reports what happened to an activity of a booked workflow; what follows is a new version of the workflow.

        Args:
            id: The workflow.
            activity: The name of the activity.
            event: What happened.
            report_id: An id of this report; a random UUID unless given.
            user: Whose workflow it is; the caller's unless given.
            until: With `NEEDS_UNTIL`: until when it runs.
            time: When it happened; now unless given.
            excluded: With `FAILED`: sites at which it must not run again.

        Raises:
            coalloc.Indefinite: it is not known whether the report was recorded.
        """
        return self._run(
            _calls.report_activity(
                report_message(
                    id, activity, event, report_id or new_id(), user, until, time, excluded
                ),
                self._patience,
            )
        )

    def revise_workflow(
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
        """Revises a booked workflow: without some sites, with some activities placed anew, or for another deadline.

        A revision that is refused is an answer: see its `revision`.

        Raises:
            coalloc.Indefinite: the outcome is not known; it says where to look.
        """
        return self._run(
            _calls.revise_workflow(
                revision_message(
                    id, change_id or new_id(), user, excluded, again, deadline, plan_only
                ),
                self._patience,
            )
        )

    def federation(self) -> messages.DescribeFederationResponse:
        """The sites, paths and resource managers of the federation, and which of them answer."""
        return self._run(
            _calls.read(
                messages.DescribeFederationResponse,
                "DescribeFederation",
                coordinator_pb2.DescribeFederationRequest(),
                self._patience,
            )
        )

    def quota(self, user: str = "") -> messages.GetQuotaResponse:
        """How much a user may have reserved, and has; the caller unless given."""
        return self._run(
            _calls.read(
                messages.GetQuotaResponse,
                "GetQuota",
                coordinator_pb2.GetQuotaRequest(user=user),
                self._patience,
            )
        )

    def data_plane(self, id: str) -> messages.GetDataPlaneResponse:
        """What the equipment behind the resource managers has of one reservation. They are asked now."""
        return self._run(
            _calls.read(
                messages.GetDataPlaneResponse,
                "GetDataPlane",
                coordinator_pb2.GetDataPlaneRequest(id=id),
                self._patience,
            )
        )

    def availability_table(
        self,
        request: CoAllocationRequest,
        *,
        first: datetime,
        last: datetime,
        step_us: int,
        options: PlanOptions | None = None,
    ) -> AvailabilityTable:
        """At which starts a request would fit, from `first` to `last`, one every `step_us` microseconds. Holds nothing.

        Raises:
            ValueError: there would be no start, or more than 10,000.
        """
        return self._run(availability_table(request, first, last, step_us, options, self._patience))

    def list(
        self,
        *,
        user: str = "",
        states: Sequence[ReservationState] = (),
        series: str = "",
        page_size: int | None = None,
    ) -> Reservations:
        """Reservations in the order in which they were made, read page by page while you iterate.

        Args:
            user: Only those of this user.
            states: Only those in one of these states.
            series: Only those of this series.
            page_size: Reservations on one page, 1 to 10,000.
        """
        program = _calls.listing(user, states, series, page_size, self._patience)
        return Reservations(Run(self._channels, program))

    def watch(self, id: str = "", *, user: str = "", resume_token: str = "") -> Watch:
        """Every state change of reservations, in order, for ever.

        Args:
            id: Only this reservation, by its id or by that of its request.
            user: Only reservations of this user.
            resume_token: Go on after the event that had this token; "0": from the beginning. Empty: only what happens
                from now on.

        Raises:
            coalloc.NotFound: there is no reservation `id`.
            coalloc.NotNow: the token is of another ledger: list the current state, then watch without a token.
        """
        position = WatchPosition(resume_token)
        program = watch(id, user, position, self._patience)
        return Watch(Run(self._channels, program), position)
