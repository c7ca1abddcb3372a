"""Where clients connect to, whom they believe, and what they do when nobody answers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from conftest import pair
from federation import Federation, free_ports, running, soon

import coalloc
from coalloc import ReservationState
from coalloc import coalloc_details_pb2 as details_pb2
from coalloc._connection import Settings, domain_of, parse_addresses, read_identity
from coalloc._details import write_details
from coalloc.v1 import coordinator_pb2 as wire


def test_addresses_are_checked_before_anything_is_sent() -> None:
    assert parse_addresses("a:1, [::1]:2") == ("a:1", "[::1]:2")
    for wrong in ("a", "a:", ":1", "a:x", "a:1,", "a:65536", "a:-1"):
        with pytest.raises(ValueError, match="allowed: host:port"):
            parse_addresses(wrong)


def test_the_environment_says_what_arguments_do_not(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COALLOC_GRC", federation.address)
    monkeypatch.setenv("COALLOC_IDENTITY", str(federation.folder / "identities/alice"))
    with coalloc.Client() as client:
        assert client.quota().user == "alice"
    # An empty text is plain text, which this coordinator does not speak.
    with (
        coalloc.Client(certs="", patience_s=0.1) as client,
        pytest.raises(coalloc.Unreachable),
    ):
        client.federation()


def test_a_token_says_who_the_user_is(federation: Federation, tmp_path: Path) -> None:
    trust = federation.folder / "identities/alice/trust"
    shutil.copytree(trust, tmp_path / "trust")
    asked: list[None] = []

    def token() -> str:
        asked.append(None)
        return federation.login.token("carol")

    with coalloc.Client(federation.address, certs=tmp_path, domain="grid", token=token) as client:
        reservation = client.reserve(pair(earliest_start=soon(hours=2)))
        assert reservation.user == "carol"
        assert client.release(reservation.id).state == ReservationState.TERMINATED
    assert len(asked) == 2
    old = federation.login.token("carol", minutes=-60)
    with (
        coalloc.Client(federation.address, certs=tmp_path, domain="grid", token=old) as client,
        pytest.raises(coalloc.NotAllowed),
    ):
        client.quota()


def test_a_token_is_not_sent_in_plain_text(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plain text"):
        coalloc.Client("127.0.0.1:1", certs="", token="secret")
    with pytest.raises(ValueError, match=r"certificate\.pem"):
        coalloc.Client("127.0.0.1:1", certs=tmp_path, token="secret")


def test_only_the_coordinators_domain_is_believed(federation: Federation) -> None:
    identity = federation.folder / "identities/alice"
    assert domain_of((identity / "certificate.pem").read_bytes()) == "grid"
    own = read_identity(identity, None)
    assert own.authorities == (identity / "trust/grid.pem").read_bytes()
    with pytest.raises(ValueError, match="grid, lab, network, osaka, tokyo"):
        coalloc.Client(federation.address, certs=identity, domain="elsewhere")
    # An authority that is trusted for its own domain cannot vouch for the coordinator.
    for options in ({"domain": "tokyo"}, {"server_name": "another.example"}):
        with (
            coalloc.Client(federation.address, certs=identity, patience_s=0.3, **options) as client,
            pytest.raises(coalloc.Unreachable, match="domain="),
        ):
            client.federation()
    with coalloc.Client(federation.address, certs=identity, server_name="localhost") as client:
        assert client.federation().coordinator == "grc"


def test_renewed_files_are_used_with_the_next_connection(
    federation: Federation, tmp_path: Path
) -> None:
    shutil.copytree(federation.folder / "identities/alice", tmp_path / "me")
    settings = Settings.of(federation.address, tmp_path / "me", None, None, None, 1)
    assert settings.credentials() is not None
    authority = federation.folder / "authorities/grid"
    before = (tmp_path / "me/certificate.pem").read_bytes()
    federation.run("certs", "renew", "--ca", str(authority), str(tmp_path / "me"))
    assert (tmp_path / "me/certificate.pem").read_bytes() != before
    with coalloc.Client(federation.address, certs=tmp_path / "me") as client:
        assert client.quota().user == "alice"


def test_nobody_listens() -> None:
    address = f"127.0.0.1:{free_ports(1)}"
    with coalloc.Client(address, certs="", patience_s=0.5) as client:
        # Nothing was sent, so nothing is unknown.
        with pytest.raises(coalloc.Unreachable):
            client.reserve(pair())
        with pytest.raises(coalloc.Unreachable):
            client.watch()
    with pytest.raises(RuntimeError, match="closed"):
        client.federation()


class Server:
    """A server that answers Reserve as it is told, and counts."""

    def __init__(self, answer: wire.ReserveResponse | bytes | None) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handler = grpc.method_handlers_generic_handler(
            "coalloc.v1.Coordinator",
            {"Reserve": grpc.unary_unary_rpc_method_handler(self._reserve)},
        )
        self._server.add_generic_rpc_handlers((handler,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def _reserve(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.requests.append(request)
        if isinstance(self._answer, wire.ReserveResponse):
            return self._answer.SerializeToString()
        if self._answer is not None:
            context.set_trailing_metadata((("grpc-status-details-bin", self._answer),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "not here")
        raise AssertionError

    def stop(self) -> None:
        """Ends it."""
        self._server.stop(None).wait()


def test_whoever_leads_answers_and_gets_the_same_request() -> None:
    standby = write_details(details_pb2.ErrorInfo(reason="STANDBY", domain="coalloc"))
    answer = wire.ReserveResponse()
    answer.reservation.id = "grc-1"
    answer.reservation.definite = True
    answer.reservation.created.seconds = 1
    servers = [Server(standby), Server(None), Server(answer)]
    try:
        dead = f"127.0.0.1:{free_ports(1)}"
        addresses = ",".join([dead, *(server.address for server in servers)])
        with coalloc.Client(addresses, certs="") as client:
            assert client.reserve(pair()).id == "grc-1"
            assert client.reserve(pair()).id == "grc-1"
        first, second, third = (server.requests for server in servers)
        # The second call goes to whoever has answered.
        assert (len(first), len(second), len(third)) == (1, 1, 2)
        assert first[0] == second[0] == third[0]
    finally:
        for server in servers:
            server.stop()


def test_threads_share_a_client(federation: Federation) -> None:
    with federation.client() as client:
        with futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: client.quota().user, range(64)))
        assert found == ["alice"] * 64


def unused_ports() -> tuple[int, int]:
    """Two ports that nobody has."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Federation]:
    """A federation with two processes of its coordinator, which share a ledger in etcd."""
    etcd = shutil.which("etcd")
    if etcd is None:
        if os.environ.get("COALLOC_ETCD"):
            pytest.fail("etcd is missing")
        pytest.skip("etcd is not installed")
    port, peers = unused_ports()
    log = (tmp_path / "etcd.log").open("wb")
    url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
    flags = {
        "data-dir": str(tmp_path / "etcd"),
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
    }
    process = subprocess.Popen(
        [etcd, *(f"--{name}={value}" for name, value in flags.items())],
        stdout=log,
        stderr=log,
    )
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (tmp_path / "etcd.log").read_text()
        yield from running(tmp_path / "fed", etcd=f"127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        log.close()


@pytest.mark.kills
def test_another_process_takes_over_within_a_call(shared: Federation) -> None:
    shared.start("grc-b")
    with shared.client() as client:
        assert client.federation().coordinator == "grc"
        before = client.reserve(pair(earliest_start=soon(hours=2)), request_id="before")
        # It leads, and answers nothing any more: the call waits for its end.
        shared.processes["grc"].send_signal(signal.SIGSTOP)
        killer = threading.Thread(target=lambda: shared.kill("grc"))
        killer.start()
        reservation = client.reserve(pair(earliest_start=soon(hours=3)), request_id="within")
        killer.join()
        assert reservation.state == ReservationState.CONFIRMED
        assert [one.request_id for one in client.list()] == ["before", "within"]
        assert client.release(before.id).state == ReservationState.TERMINATED
    assert "All is as it must be" in shared.audit()
