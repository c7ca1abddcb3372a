"""The package as others get it: a pure wheel with two dependencies, whose README is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from federation import PROGRAM

pytestmark = pytest.mark.packages
PACKAGE = Path(__file__).resolve().parent.parent


def run(*words: str | Path, **environment: str) -> str:
    """Runs a program that has to succeed."""
    command = [str(word) for word in words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | environment
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as by a packager."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", out, PACKAGE)
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_is_pure_typed_and_small(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    assert wheel.stat().st_size < 150_000
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        said = message_from_string(packed.read(metadata).decode())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"coalloc"}
    assert "coalloc/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    needed = [one for one in said.get_all("Requires-Dist") or [] if "extra ==" not in one]
    assert sorted(re.split(r"[<>=]", one)[0] for one in needed) == ["grpcio", "protobuf"]


def test_the_readme_is_true_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    readme = (PACKAGE / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (promised,) = re.findall(r"```text\n(.*?)```", readme, re.DOTALL)
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(tmp_path / "venv/bin/python", "-m", "pip", "install", "--quiet", wheel)
    example = tmp_path / "example.py"
    example.write_text(program)
    run(sys.executable, "-m", "mypy", "--strict", example)
    federation = tmp_path / "elgl"
    try:
        said = run(PROGRAM, "demo", "--requests", "3", "--keep", "--dir", federation)
        exports = dict(re.findall(r"export (COALLOC_\w+)=(\S+)", said))
        assert set(exports) == {"COALLOC_GRC", "COALLOC_IDENTITY"}
        printed = run(tmp_path / "venv/bin/python", "-W", "error", example, **exports)
        assert printed == promised
    finally:
        for pid in (federation / "pids").read_text().split():
            os.kill(int(pid), 9)
