"""Every notebook runs from its first cell to its last, and shows what it is about."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from federation import PROGRAM, free_ports

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytestmark = pytest.mark.notebooks
NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a notebook, in which nothing is left running."""
    yield tmp_path
    for pids in tmp_path.glob("*/pids"):
        for pid in pids.read_text().split():
            # Only what is still the program that the notebook has started.
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and b"coalloc" in command.read_bytes():
                os.kill(int(pid), signal.SIGKILL)


def outputs(notebook: Any) -> list[Any]:
    """What the cells show."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [output for cell in cells for output in cell.outputs]


@pytest.mark.parametrize(
    ("name", "drawings", "tables"), [("reserve", 2, 4), ("tasks", 2, 3), ("experiment", 1, 2)]
)
def test_a_notebook_runs(
    name: str, drawings: int, tables: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COALLOC_PROGRAM", str(PROGRAM))
    monkeypatch.setenv("COALLOC_PORT_BASE", str(free_ports(8)))
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    assert not outputs(notebook), "a notebook is committed without its outputs"
    runner = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}
    )
    runner.execute()
    shown = [output.get("data", {}) for output in outputs(notebook)]
    assert sum("image/svg+xml" in one for one in shown) == drawings
    assert sum("text/html" in one for one in shown) == tables
