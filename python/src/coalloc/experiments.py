"""Experiments of `coalloc sim run`: run one, and read its folder as data frames (`coalloc[pandas]`).

Left out: what an experiment file may say (`coalloc sim show`, and the guide's chapter on experiments).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


class ExperimentError(RuntimeError):
    """The program could not run the experiment, or the folder has none."""


@dataclass(frozen=True)
class Plot:
    """A plot that the program has drawn; notebooks show it."""

    name: str
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class ExperimentResults:
    """The folder of an experiment that was run."""

    folder: Path

    @property
    def report(self) -> str:
        """The report: the paper's numbers and ours, and which statements about curves hold. Markdown."""
        return (self.folder / "report.md").read_text()

    @property
    def plots(self) -> tuple[Plot, ...]:
        """The plots, by name."""
        found = sorted(self.folder.glob("*.svg"))
        return tuple(Plot(one.stem, one.read_text()) for one in found)

    def plot(self, name: str) -> Plot:
        """One plot.

        Raises:
            ExperimentError: there is none of that name.
        """
        for one in self.plots:
            if one.name == name:
                return one
        known = ", ".join(one.name for one in self.plots)
        raise ExperimentError(f"{self.folder} has no plot {name!r}; there are: {known}")

    def summary(self) -> pandas.DataFrame:
        """Mean and 95 % confidence interval of every metric at every point: a row for each, axes as columns."""
        _check_pandas()
        import pandas

        frame: pandas.DataFrame = pandas.read_csv(self.folder / "results.csv")
        return frame

    def runs(self) -> pandas.DataFrame:
        """Every run: a row for each point and seed, a column for each axis and each measure.

        A measure that has the name of an axis is `measure_NAME`.
        """
        _check_pandas()
        import pandas

        rows: list[dict[str, Any]] = []
        with (self.folder / "results.jsonl").open() as lines:
            for line in lines:
                run = json.loads(line)
                if "point" not in run:
                    continue
                row: dict[str, Any] = {axis: _number(text) for axis, text in run["point"].items()}
                row["seed"] = run["seed"]
                for name, value in run["measures"].items():
                    row[f"measure_{name}" if name in row else name] = value
                rows.append(row)
        frame: pandas.DataFrame = pandas.DataFrame(rows)
        return frame


def _check_pandas() -> None:
    """Raises an ImportError that says what to install, if pandas is not installed."""
    if importlib.util.find_spec("pandas") is None:
        raise ImportError("data frames need pandas: pip install 'coalloc[pandas]'")


def _number(text: str) -> int | float | str:
    """A value of an axis as a number, if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_results(folder: str | os.PathLike[str]) -> ExperimentResults:
    """The results in a folder of `coalloc sim run --out`.

    Raises:
        ExperimentError: the folder has no results.
    """
    path = Path(folder)
    if not (path / "results.jsonl").exists():
        raise ExperimentError(
            f"{path} has no results.jsonl; needed: a folder of `coalloc sim run --out`"
        )
    return ExperimentResults(path)


def run_experiment(
    experiment: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    seeds: int | None = None,
    small: bool = False,
    program: str | os.PathLike[str] = "coalloc",
    flags: Sequence[str] = (),
) -> ExperimentResults:
    """Runs an experiment and returns when it is done. Runs that the folder already has are not repeated.

    Args:
        experiment: The name of one that comes with the program, or an experiment file.
        out: The folder for the results.
        seeds: Runs for each point; as the experiment says unless given.
        small: Only the few points that the experiment names for a first look.
        program: The program `coalloc`.
        flags: Further flags of `coalloc sim run`.

    Raises:
        ExperimentError: the program refused; its text says why.
    """
    command = [os.fspath(program), "sim", "run", os.fspath(experiment), "--out", os.fspath(out)]
    command += ["--small"] if small else []
    command += [] if seeds is None else ["--seeds", str(seeds)]
    try:
        # The program is the caller's own choice, and no shell reads the words.
        done = subprocess.run(  # noqa: S603
            [*command, *flags],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"NO_COLOR": "1"},
        )
    except OSError as error:
        raise ExperimentError(f"{command[0]} cannot be started: {error}") from error
    if done.returncode != 0:
        raise ExperimentError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return read_results(out)
