"""Reserves two sites and a path between them, watches the reservation, and releases it."""

import datetime
import os
import pathlib

import grpc
from coalloc.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status


def connect():
    """A channel to the coordinator at COALLOC_GRC, as who COALLOC_IDENTITY is."""
    folder = pathlib.Path(os.environ["COALLOC_IDENTITY"])
    credentials = grpc.ssl_channel_credentials(
        root_certificates=(folder / "trust/grid.pem").read_bytes(),
        private_key=(folder / "key.pem").read_bytes(),
        certificate_chain=(folder / "certificate.pem").read_bytes(),
    )
    return grpc.secure_channel(os.environ["COALLOC_GRC"], credentials)


def reason_of(error):
    """The reason for programs, and each field that is wrong, in a call that failed."""
    reason, fields = None, []
    for detail in rpc_status.from_call(error).details:
        info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason = info.reason
        elif detail.Unpack(request):
            fields = [(wrong.field, wrong.description) for wrong in request.field_violations]
    return reason, fields


def reserve(coordinator, request_id, cpus):
    """Reserves, and returns the reservation. The same id again is the same request: it is safe to repeat the call."""
    request = types_pb2.CoAllocationRequest(
        sites=[
            types_pb2.SiteRequest(name="a", cpus=cpus),
            types_pb2.SiteRequest(name="b", cpus=4),
        ],
        links=[types_pb2.LinkRequest(**{"from": "a"}, to="b", bandwidth_bps=10**9)],
        duration=datetime.timedelta(hours=1),
    )
    wanted = coordinator_pb2.ReserveRequest(request_id=request_id, request=request)
    return coordinator.Reserve(wanted, timeout=60).reservation


def state_of(reservation):
    name = coordinator_pb2.ReservationState.Name(reservation.state)
    return name.removeprefix("RESERVATION_STATE_").lower()


with connect() as channel:
    coordinator = coordinator_pb2_grpc.CoordinatorStub(channel)

    reservation = reserve(coordinator, "from-python", 4)
    print("reserved:", state_of(reservation))
    for placement in reservation.plan.placements:
        print(" ", placement.site, "at", placement.at)

    # Everything that has happened to it so far; without a token, a watch tells what happens from now on.
    watch = coordinator_pb2.WatchRequest(resume_token="0", id="from-python")
    events = coordinator.Watch(watch, timeout=60)
    for message in events:
        if message.HasField("event"):
            print("event:", state_of(message.event), "-", message.event.what)
            if state_of(message.event) == "confirmed":
                break
    events.cancel()

    released = coordinator_pb2.ReleaseReservationRequest(id="from-python")
    print("released:", state_of(coordinator.Release(released, timeout=60).reservation))

    # A refusal is an answer and has a reason; a mistake is an error and has details.
    refused = reserve(coordinator, "too-large", 10_000).refusal
    print("refused:", types_pb2.Reason.Name(refused.reason), "-", refused.detail)
    try:
        reserve(coordinator, "nothing", 0)
    except grpc.RpcError as error:
        print("failed:", error.code().name, *reason_of(error))
