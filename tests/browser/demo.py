"""The demonstration's federation, whose coordinator believes one more login service and can be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("COALLOC_PROGRAM", ROOT / "target/debug/coalloc")).resolve()
# How long a daemon may take to serve, in seconds.
START_PATIENCE_S = 60.0
# The exit code of the program when it does not know what came of a call.
UNKNOWN_OUTCOME = 4
ISSUER = "https://login.example"


class Login:
    """A login service: it signs tokens, and publishes its key."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        public = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.key_set = json.dumps({"keys": [public | {"alg": "ES256", "kid": "k"}]})

    def token(self, user: str, minutes: float = 30) -> str:
        """A token of a user, which has ended already if the minutes are negative."""
        ends = datetime.now(timezone.utc) + timedelta(minutes=minutes)
        claims = {"iss": ISSUER, "aud": "coalloc", "sub": user, "exp": ends}
        return jwt.encode(claims, self._key, algorithm="ES256", headers={"kid": "k"})


class Demo:
    """`coalloc demo --keep` with a few requests of the paper's day."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        note = run("demo", "--requests", "6", "--tasks", "--keep", "--dir", str(folder))
        found = [re.search(rf"{name}[ =]+(\S+)", note) for name in ("over HTTP", "COALLOC_GRC", "COALLOC_IDENTITY")]
        self.web, self._address, self._identity = (one.group(1) for one in found)
        pids = [int(pid) for pid in (folder / "pids").read_text().split()]
        self._others = set(pids)
        (self._coordinator,) = [pid for pid in pids if b"\0grc\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        self._others.remove(self._coordinator)
        command = Path(f"/proc/{self._coordinator}/cmdline").read_bytes()
        self._command = command.decode().rstrip("\0").split("\0")
        self._cwd = Path(f"/proc/{self._coordinator}/cwd").resolve()
        self.login = Login()
        try:
            self._configure()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        """Starts the coordinator again, with the login service and the experiments of the documentation in its configuration."""
        (self.folder / "login.jwks.json").write_text(self.login.key_set)
        (file,) = [Path(self._cwd, word) for word in self._command if word.endswith(".json")]
        config = json.loads(file.read_text())
        issuer = {"issuer": ISSUER, "audience": "coalloc", "keys": str(self.folder / "login.jwks.json")}
        config["daemon"]["identity"]["tokenIssuers"] = [issuer]
        config["webExperiments"] = str(ROOT / "docs/experiments")
        file.write_text(json.dumps(config))
        self.kill()
        self.start()

    @property
    def identity(self) -> Path:
        """The operator's folder, with a certificate and its key."""
        return Path(self._identity)

    def run(self, *words: str) -> str:
        """Runs the program as the operator and returns what it prints."""
        return run(*words, COALLOC_GRC=self._address, COALLOC_IDENTITY=self._identity)

    def reserve(self, name: str, user: str = "alice") -> str:
        """Reserves two sites and a link for half an hour, an hour from now, and returns the reservation's id."""
        parts = ["--site", "a=1", "--site", "b=1", "--link", "a-b=100M", "--for", "30min", "--after", in_an_hour()]
        made = json.loads(self.run("reserve", *parts, "--user", user, "--id", name, "--json"))
        return made.get("reservation", made)["id"]

    def submit_workflow(self, name: str) -> str:
        """Reserves the workflow of the guide's chapter, an hour from now, and returns the reservation's id."""
        file = ROOT / "docs/examples/workflows/beamline.yaml"
        made = self.run("workflow", "submit", str(file), "--earliest-start", in_an_hour(), "--id", name, "--json")
        return json.loads(made)["reservation"]

    def kill(self) -> None:
        """Ends the coordinator with `kill -9`, and waits until it has ended."""
        handle = os.pidfd_open(self._coordinator)
        try:
            os.kill(self._coordinator, signal.SIGKILL)
            assert select.select([handle], [], [], START_PATIENCE_S)[0], "the coordinator does not end"
        finally:
            os.close(handle)

    def start(self) -> None:
        """Starts the coordinator and waits until it says that it serves, as a service manager does."""
        notices = self.folder / "grc.notify"
        notices.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified, (self.folder / "again.log").open("ab") as log:
            notified.bind(str(notices))
            notified.settimeout(START_PATIENCE_S)
            environment = own_environment() | {"NOTIFY_SOCKET": str(notices)}
            process = subprocess.Popen(self._command, cwd=self._cwd, env=environment, stdout=log, stderr=log)
            self._coordinator = process.pid
            while b"READY=1" not in notified.recv(4096):
                pass

    def close(self) -> None:
        """Ends every daemon."""
        for pid in [self._coordinator, *self._others]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def in_an_hour() -> str:
    """An instant as the program reads it: a request that is sent again has to have the same one."""
    return f"{datetime.now(timezone.utc) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"


def own_environment() -> dict[str, str]:
    """The environment without settings of the program."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COALLOC_")}


def run(*words: str, **settings: str) -> str:
    """Runs the program, which has to succeed, and returns what it prints."""
    environment = own_environment() | settings
    while True:
        done = subprocess.run([str(PROGRAM), *words], env=environment, capture_output=True, text=True, timeout=120)
        # On a busy machine a connection may break. The same request with the same id has the same outcome.
        if done.returncode != UNKNOWN_OUTCOME:
            break
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
