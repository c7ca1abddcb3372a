"""The guide's chapter names what there is, all of it, and nothing else."""

from __future__ import annotations

import ast
import inspect
import re

import pytest
from federation import ROOT

import coalloc
from coalloc import errors

CHAPTER = (ROOT / "docs/guide/python.md").read_text()


def first_cells(head: str) -> list[str]:
    """The names in code in the first column of the table that begins with this head."""
    table = CHAPTER[CHAPTER.index(f"| {head} |") :].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_every_argument_method_and_exception_is_in_its_table() -> None:
    arguments = list(inspect.signature(coalloc.Client).parameters)
    assert first_cells("argument") == arguments
    methods = {
        name
        for name, _ in inspect.getmembers(coalloc.Client, inspect.isfunction)
        if not name.startswith("_")
    }
    assert sorted(first_cells("method")) == sorted(methods - {"close"})
    kinds = [
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.CoallocError)
    ]
    assert sorted(first_cells("exception")) == sorted(set(kinds) - {"CoallocError"})
    for name in [
        *kinds,
        "AsyncClient",
        "hours",
        "minutes",
        "seconds",
        "gbps",
        "mbps",
        "timeline_of",
    ]:
        assert name in coalloc.__all__


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", CHAPTER, re.DOTALL))
def test_every_example_is_python_and_names_what_there_is(block: str) -> None:
    for node in ast.walk(ast.parse(block)):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        owner = {"coalloc": coalloc, "client": coalloc.Client}.get(node.value.id)
        assert owner is None or hasattr(owner, node.attr), f"{node.value.id}.{node.attr}"
