"""A federation of real processes for tests, of which any can be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

import coalloc

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("COALLOC_PROGRAM", ROOT / "target/debug/coalloc")).resolve()
# How long a daemon may take to serve, in seconds.
START_PATIENCE_S = 60.0
USERS = ("alice", "operator")


def free_ports(count: int) -> int:
    """The first of so many neighbouring ports that nobody has, below those that the system gives to clients."""
    for base in range(21_000 + os.getpid() % 250 * 40, 32_000, count):
        try:
            for port in range(base, base + count):
                with socket.socket() as one:
                    one.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise RuntimeError("no free ports")


def soon(**later: float) -> datetime:
    """A whole second from now on."""
    now = datetime.now(timezone.utc).replace(microsecond=0)
    return now + timedelta(seconds=1) + timedelta(**later)


class Login:
    """A login service: it signs tokens, and publishes its key."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.key_set = json.dumps({"keys": [public | {"alg": "ES256", "kid": "k"}]})

    def token(self, user: str, minutes: float = 5) -> str:
        """A token of a user."""
        ends = datetime.now(timezone.utc) + timedelta(minutes=minutes)
        claims = {"iss": "https://login.example", "aud": "coalloc", "sub": user, "exp": ends}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "k"})


class Federation:
    """Three sites, one of them with single servers, and two paths; tasks are planned on pictures."""

    def __init__(self, folder: Path, etcd: str | None = None) -> None:
        self.folder = folder
        base = free_ports(8)
        self.port = base
        self.address = f"127.0.0.1:{base}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        sites = ["--site", "tokyo=16", "--site", "osaka=8", "--site", "lab=8"]
        links = ["--link", "tokyo-osaka=10G", "--link", "osaka-lab=10G"]
        self.run("init", str(folder), *sites, *links, "--port-base", str(base))
        self._edit("grc.yaml", "#tasks: {", "tasks: {mode: TASK_MODE_DISTRIBUTED, ")
        issuer = "{issuer: 'https://login.example', audience: coalloc, keys: login.jwks.json}"
        self._edit("grc.yaml", "#token_issuers: []", f"token_issuers: [{issuer}]")
        self.login = Login()
        (folder / "login.jwks.json").write_text(self.login.key_set)
        self.managers = ["crm-tokyo", "crm-osaka", "crm-lab", "nrm-network"]
        for name in self.managers:
            self._edit(f"{name}.yaml", "#profiles: {}", "profiles: {coordinators: [grc]}")
        servers = "{name: lab, servers: {cpus_each: 4, groups: [{count: 2}]}}"
        self._edit("crm-lab.yaml", "{name: lab, cpus: 8}", servers)

        if etcd is not None:
            self._share(etcd)

    def _share(self, etcd: str) -> None:
        """Makes the coordinator one of two processes, `grc` and `grc-b`, that share a ledger."""
        other = f"127.0.0.1:{self.port + 7}"
        members = [{"name": "a", "address": self.address}, {"name": "b", "address": other}]
        for name in self.managers:
            both = f'address: "{self.address},{other}"'
            self._edit(f"{name}.yaml", f'address: "{self.address}"', both)
        alone = (self.folder / "grc.yaml").read_text()
        for file, member in (("grc", "a"), ("grc-b", "b")):
            (self.folder / f"{file}.yaml").write_text(alone)
            shared = {"endpoints": [etcd], "prefix": "coalloc/grc", "member": member}
            own = json.dumps(shared | {"members": members})
            self._edit(f"{file}.yaml", "#shared_ledger: {}", f"shared_ledger: {own}")
            self._edit(f"{file}.yaml", "state/grc.ledger", f"state/{file}.ledger")
        self._edit("grc-b.yaml", f'listen: "{self.address}"', f'listen: "{other}"')
        self.address = f"{self.address},{other}"
        self.run("ledger", "share", "--config", str(self.folder / "grc.yaml"))

    def _edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old}"
        path.write_text(text.replace(old, new))

    def run(self, *words: str, user: str = "operator") -> str:
        """Runs the program and returns what it prints; it has to succeed."""
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("COALLOC_")
        }
        environment |= {"COALLOC_GRC": self.address, "RUST_BACKTRACE": "0"}
        if (identity := self.folder / "identities" / user).exists():
            environment["COALLOC_IDENTITY"] = str(identity)
        command = [str(PROGRAM), *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, name: str) -> None:
        """Starts a daemon and waits until it says that it serves, as a service manager does."""
        notices = self.folder / f"{name}.notify"
        notices.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
            notified.bind(str(notices))
            notified.settimeout(START_PATIENCE_S)
            environment = os.environ | {"NOTIFY_SOCKET": str(notices), "RUST_BACKTRACE": "0"}
            environment.pop("COALLOC_GRC", None)
            with (self.folder / f"{name}.out").open("ab") as out:
                self.processes[name] = subprocess.Popen(
                    [str(PROGRAM), "serve", name.partition("-")[0], "--config", f"{name}.yaml"],
                    cwd=self.folder,
                    env=environment,
                    stdout=out,
                    stderr=out,
                )
            while b"READY=1" not in notified.recv(4096):
                pass

    def start_all(self) -> None:
        """Starts every daemon; then the coordinator reaches all resource managers."""
        for name in [*self.managers, "grc"]:
            self.start(name)
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Returns once the coordinator knows every resource manager, whatever it takes within the patience of a test."""
        with self.client() as client:
            while True:
                known = client.federation().resource_managers
                if all(one.reachable and one.description for one in known):
                    return

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def stop(self, name: str) -> None:
        """Lets a daemon do nothing, until it is killed."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def unread(self) -> int:
        """The number of bytes that clients have sent to the coordinator and that it has not read."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        fields = [line.split() for line in lines]
        own = f"0100007F:{self.port:04X}"
        # Field 3 is the state: 01 is a connection.
        return sum(
            int(one[4].split(":")[1], 16) for one in fields if one[1] == own and one[3] == "01"
        )

    def client(self, user: str = "alice", patience_s: float = 30.0) -> coalloc.Client:
        """A client of the coordinator."""
        identity = self.folder / "identities" / user
        return coalloc.Client(self.address, certs=identity, patience_s=patience_s)

    def async_client(self, user: str = "alice", patience_s: float = 30.0) -> coalloc.AsyncClient:
        """A client for asyncio."""
        identity = self.folder / "identities" / user
        return coalloc.AsyncClient(self.address, certs=identity, patience_s=patience_s)

    def audit(self) -> str:
        """`coalloc audit`: nothing overbooked, half booked or lost. It waits until the federation is at rest."""
        return self.run("audit")

    def close(self) -> None:
        """Ends every daemon."""
        for name in list(self.processes):
            self.kill(name)


def running(folder: Path, etcd: str | None = None) -> Iterator[Federation]:
    """A federation that runs for as long as the test wants it."""
    federation = Federation(folder, etcd)
    try:
        federation.start_all()
        yield federation
    finally:
        federation.close()
