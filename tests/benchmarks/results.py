"""What was measured, and how it is kept: ``results.json``, one entry for every measure.

A run replaces the measures that it made and leaves the others as an earlier run left them.
"""

import os
import platform
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import msgspec
import psutil

PATH = Path(__file__).with_name("results.json")
PACKAGES = (
    "django", "django-ninja", "uvicorn", "uvloop", "httptools", "msgspec",
    "ollama", "httpx", "fastapi", "sse-starlette",
)  # fmt: skip


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured: the hardware, the system, and the packages' versions."""

    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    data_on: str
    packages: Mapping[str, str]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one measure.

    Attributes:
        at: When that run ended (UTC, ISO 8601); the same for all that it measured.
        quick: Whether it was one round of less work.
        machine: Where.
        figures: Medians in SI units, by figure (``name`` or ``name@point of a curve``), then by
            who was measured: ``ours``, ``R``, ``direct`` (the upstream alone).
    """

    at: str
    quick: bool
    machine: Machine
    figures: Mapping[str, Mapping[str, float]]

    @property
    def date(self) -> str:
        """The day."""
        return self.at[:10]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that is known, by measure."""

    measures: Mapping[str, Measured]

    def of(self, figure: str, who: str = "ours") -> float | None:
        """Return a figure, or None where it was not measured."""
        for measured in self.measures.values():
            if figure in measured.figures:
                return measured.figures[figure].get(who)
        return None

    def points(self, figure: str) -> list[int]:
        """Return the points of a curve at which somebody was measured."""
        names = {name for measured in self.measures.values() for name in measured.figures}
        return sorted(
            int(name.partition("@")[2]) for name in names if name.startswith(f"{figure}@")
        )

    def with_measures(self, new: Mapping[str, Measured]) -> "Results":
        """Return these with some measures made anew."""
        return Results({**self.measures, **new})


class Samples:
    """Collects the figures of every round."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, dict[str, list[float]]]] = {}

    def note(self, measure: str, who: str, figures: Mapping[str, float]) -> None:
        """Keep what one round gave."""
        of_measure = self._values.setdefault(measure, {})
        for figure, value in figures.items():
            of_measure.setdefault(figure, {}).setdefault(who, []).append(value)

    def medians(self, *, quick: bool, at: datetime) -> dict[str, Measured]:
        """Return the medians of the rounds of a run that ended then."""
        machine = this_machine()
        return {
            measure: Measured(
                at=at.astimezone(UTC).isoformat(timespec="seconds"),
                quick=quick,
                machine=machine,
                figures={
                    figure: {who: float(f"{median(values):.4g}") for who, values in by_who.items()}
                    for figure, by_who in figures.items()
                },
            )
            for measure, figures in self._values.items()
        }


def load(path: Path = PATH) -> Results:
    """Return what earlier runs left."""
    if not path.exists():
        return Results({})
    return Results(msgspec.json.decode(path.read_bytes(), type=dict[str, Measured]))


def save(results: Results, path: Path = PATH) -> None:
    """Keep everything for later runs."""
    data = msgspec.json.encode(dict(sorted(results.measures.items())))
    path.write_bytes(msgspec.json.format(data, indent=1) + b"\n")


def this_machine() -> Machine:
    """Describe the machine; says nothing by which it could be found."""
    number = re.match(r"[\d.]+", platform.release())
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        system=f"{platform.system()} {number[0] if number else ''}".strip(),
        python=platform.python_version(),
        data_on=_filesystem_of(Path(tempfile.gettempdir())),
        packages=dict(_versions(PACKAGES)),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _filesystem_of(folder: Path) -> str:
    mounts = [
        part for part in psutil.disk_partitions(all=True) if folder.is_relative_to(part.mountpoint)
    ]
    return max(mounts, key=lambda part: len(part.mountpoint)).fstype if mounts else "unknown"


def _versions(packages: Iterable[str]) -> Iterable[tuple[str, str]]:
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue
