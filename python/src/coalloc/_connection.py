"""Where a client connects to, and as whom: what both clients share, with nothing in it that waits.

With an identity, calls go over TLS. gRPC then checks that the server's certificate was issued by a believed authority and names
the host of the address. It cannot compare the identity in the certificate (`spiffe://DOMAIN/coalloc/ROLE/NAME`), and it reads no
lists of what was revoked. So only the authorities of one domain are believed here, the coordinator's: no other domain can answer
in the coordinator's place.

Left out: the calls (`coalloc.client`, `coalloc.aio`).
"""

from __future__ import annotations

import base64
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc

from coalloc._details import DETAILS_TRAILER, read_details
from coalloc._exchange import Patience
from coalloc._program import Answer, Call, Failed, Nothing

# The coordinator's address when neither the caller nor the environment gives one.
ADDRESS_DEFAULT = "127.0.0.1:7000"
# Longest time for one call, in seconds. A coordinator answers within 60 s.
CALL_TIME_MAX_S = 120.0
_ANSWER_MAX_BYTES = 16 << 20
_IDENTITY = re.compile(rb"spiffe://([A-Za-z0-9._-]+)/coalloc/")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
Token = str | Callable[[], str]


def new_id() -> str:
    """An id that nobody else has chosen."""
    return str(uuid.uuid4())


def parse_addresses(text: str) -> tuple[str, ...]:
    """`host:port`, or several with commas between.

    Raises:
        ValueError: one of them is not `host:port`.
    """
    addresses = tuple(one.strip() for one in text.split(","))
    for one in addresses:
        host, _, port = one.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise ValueError(f"address: {one!r} is not allowed; allowed: host:port")
    return addresses


def domain_of(certificate_pem: bytes) -> str:
    """The domain of the identity in a certificate.

    Raises:
        ValueError: there is no such identity in it.
    """
    pem = _PEM.search(certificate_pem)
    # A URI stands in a certificate letter by letter.
    found = _IDENTITY.search(base64.b64decode(pem.group(1))) if pem else None
    if found is None:
        raise ValueError(
            "certificate.pem has no identity spiffe://DOMAIN/coalloc/ROLE/NAME; `coalloc init` and "
            "`coalloc certs issue` write such certificates"
        )
    return found.group(1).decode()


@dataclass(frozen=True)
class Identity:
    """Who the caller is, and who is believed: the content of a folder at one time."""

    certificate: bytes | None
    key: bytes | None
    authorities: bytes


def read_identity(folder: Path, domain: str | None) -> Identity:
    """Reads a folder with certificate.pem, key.pem and trust/DOMAIN.pem.

    Raises:
        ValueError: a file is missing, or nobody says which domain the coordinator has.
        OSError: a file cannot be read.
    """
    certificate_file = folder / "certificate.pem"
    certificate = certificate_file.read_bytes() if certificate_file.exists() else None
    if certificate is None and domain is None:
        raise ValueError(
            f"{folder} has no certificate.pem; needed: a folder as `coalloc init` or `coalloc certs` writes it, or, "
            "for a caller with a token, a folder with trust/ and domain= with the coordinator's domain"
        )
    domain = domain or domain_of(certificate or b"")
    authorities = folder / "trust" / f"{domain}.pem"
    if not authorities.exists():
        known = sorted(
            one.name[:-4]
            for one in (folder / "trust").glob("*.pem")
            if not one.name.endswith(".crl.pem")
        )
        raise ValueError(
            f"{authorities} is missing, so a coordinator of {domain} is not believed; domain= may be one of: "
            f"{', '.join(known) or 'none'}"
        )
    key = (folder / "key.pem").read_bytes() if certificate is not None else None
    return Identity(certificate, key, authorities.read_bytes())


@dataclass(frozen=True)
class Settings:
    """What a client was made with."""

    addresses: tuple[str, ...]
    folder: Path | None
    """None: calls are in plain text."""
    token: Token | None
    domain: str | None
    server_name: str | None
    patience: Patience

    @classmethod
    def of(
        cls,
        address: str | None,
        certs: str | os.PathLike[str] | None,
        token: Token | None,
        domain: str | None,
        server_name: str | None,
        patience_s: float,
    ) -> Settings:
        """The settings of arguments, and of the environment for what they do not say.

        Raises:
            ValueError: an address or the folder is not what it should be, or a token would go over plain text.
        """
        said = address or os.environ.get("COALLOC_GRC") or ADDRESS_DEFAULT
        folder = os.environ.get("COALLOC_IDENTITY", "") if certs is None else os.fspath(certs)
        if token is not None and not folder:
            raise ValueError(
                "token: it would be sent in plain text, where anybody on the way can take it; needed: certs= with a "
                "folder that has trust/DOMAIN.pem, and domain="
            )
        path = Path(folder) if folder else None
        settings = cls(
            parse_addresses(said), path, token, domain, server_name, Patience(patience_s)
        )
        if path is not None:
            read_identity(path, domain)
        return settings

    def credentials(self) -> grpc.ChannelCredentials | None:
        """TLS with the identity as its files are now; None in plain text."""
        if self.folder is None:
            return None
        identity = read_identity(self.folder, self.domain)
        return grpc.ssl_channel_credentials(
            root_certificates=identity.authorities,
            private_key=identity.key,
            certificate_chain=identity.certificate,
        )

    def options(self) -> list[tuple[str, int | str]]:
        """How channels behave: no waiting longer than our own, and no message that is too large."""
        options: list[tuple[str, int | str]] = [
            ("grpc.max_receive_message_length", _ANSWER_MAX_BYTES),
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", 2_000),
            ("grpc.max_reconnect_backoff_ms", 2_000),
            # Its own connections: another client may have another identity, and the files may have changed.
            ("grpc.use_local_subchannel_pool", 1),
            # Like `coalloc` itself.
            ("grpc.enable_http_proxy", 0),
        ]
        if self.server_name is not None:
            options.append(("grpc.ssl_target_name_override", self.server_name))
        return options

    def metadata(self, needs: tuple[str, ...]) -> tuple[tuple[str, str | bytes], ...]:
        """What goes with a call: what its receiver must know, and who makes it."""
        metadata: list[tuple[str, str | bytes]] = []
        if needs:
            metadata.append(("coalloc-needs", ",".join(needs)))
        if self.token is not None:
            token = self.token if isinstance(self.token, str) else self.token()
            metadata.append(("authorization", f"Bearer {token}"))
        return tuple(metadata)


class Leader:
    """Which connection is in use, and where it leads. Threads share it."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        self._addresses = addresses
        self._lock = threading.Lock()
        self.connection = 0
        """The number of the connection."""

    @property
    def address(self) -> str:
        """The address: the next one with each connection."""
        return self._addresses[self.connection % len(self._addresses)]

    def move_on(self, failed: int) -> bool:
        """Goes on to the next connection, unless that has been done since the call failed."""
        with self._lock:
            if self.connection != failed:
                return False
            self.connection += 1
            return True


def now_s() -> float:
    """A clock that never goes back, in seconds."""
    return time.monotonic()


def nothing() -> Nothing:
    """The outcome of a step that has none."""
    return Nothing(now_s())


def answered(message: object, call: Call) -> Answer:
    """The outcome of a call that was answered."""
    if not isinstance(message, call.answer):
        raise TypeError(f"{call.path} was answered by {type(message).__name__}")
    return Answer(message, now_s())


def failed(error: grpc.RpcError, connection: int) -> Failed:
    """The outcome of a call that failed. Every error of gRPC has a code, a text and trailers."""
    code, text = error.code(), error.details()
    trailers = cast(Iterable[tuple[str, str | bytes]], error.trailing_metadata() or ())
    found = [value for key, value in trailers if key == DETAILS_TRAILER]
    trailer = found[0] if found and isinstance(found[0], bytes) else None
    return Failed(code.name, text or "", read_details(trailer), connection, now_s())


def ended(connection: int) -> Failed:
    """The outcome of waiting on a stream that its server has ended."""
    return Failed("UNAVAILABLE", "the stream has ended", read_details(None), connection, now_s())
