"""Arms that write tokens: ours and those of transformers, interleaved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from foreword.models.dtype import Dtype
from loadtest.bench.findings import Cell, Table
from loadtest.bench.interleave import interleaved
from loadtest.bench.progress import Progress
from loadtest.bench.summary import Summary, median, summarize
from loadtest.engine.rates import Better, Comparison, Output, against_best
from loadtest.engine.report import with_interval

FOREWORD: Final = "foreword"
DTYPES: Final = (Dtype.BFLOAT16, Dtype.FLOAT32)
WARM_UP: Final = -1
"""Number of the repeat that nobody looks at."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to have tokens written; `write` is told the number of the repeat."""

    name: str
    dtype: Dtype
    write: Callable[[int], Awaitable[list[Output]]]


Written = Mapping[tuple[Dtype, str], Sequence[Sequence[Output]]]
"""Outputs of every repeat by arm."""


async def written(arms: Sequence[Arm], repeats: int, progress: Progress, what: str) -> Written:
    """Run all arms, after one run of each that does not count."""
    made: dict[tuple[Dtype, str], list[list[Output]]] = {(arm.dtype, arm.name): [] for arm in arms}
    for repeat, arm in [*((WARM_UP, arm) for arm in arms), *interleaved(arms, repeats)]:
        progress.now(f"{what}: {arm.name}, {arm.dtype.value}")
        outputs = await arm.write(repeat)
        if repeat != WARM_UP:
            made[arm.dtype, arm.name].append(outputs)
    return made


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second of every arm, repeat by repeat."""

    by_arm: Mapping[tuple[Dtype, str], Sequence[float]]

    @classmethod
    def of(cls, made: Written, rate: Callable[[Sequence[Output]], float]) -> Rates:
        """Return the rates of what was written."""
        return cls({arm: [rate(outputs) for outputs in repeats] for arm, repeats in made.items()})

    def summary(self, dtype: Dtype, name: str) -> Summary:
        """Return the summary of an arm."""
        return summarize(self.by_arm[dtype, name])

    def against(self, dtype: Dtype, peers: Sequence[str]) -> Comparison:
        """Return ours over the best of some arms of the same dtype."""
        found = {name: self.by_arm[dtype, name] for name in peers}
        return against_best(self.by_arm[dtype, FOREWORD], found, Better.LARGER)

    def names(self) -> list[str]:
        """Return the names of the arms in their order."""
        return list(dict.fromkeys(name for _, name in self.by_arm))

    def json(self) -> dict[str, Any]:
        """Return them as what JSON can say, by dtype and arm."""
        return {
            dtype.value: {name: asdict(self.summary(dtype, name)) for kind, name in self.by_arm if kind is dtype}
            for dtype in dict.fromkeys(dtype for dtype, _ in self.by_arm)
        }

    def table(self, title: str, more: Sequence[tuple[Cell, ...]] = ()) -> Table:
        """Return a table with a row for each arm and a column for each dtype; `more` are further rows."""
        dtypes = list(dict.fromkeys(dtype for dtype, _ in self.by_arm))
        rows = [(name, *(self._cell(dtype, name) for dtype in dtypes)) for name in self.names()]
        return Table(title, ("", *(dtype.value for dtype in dtypes)), (*rows, *more))

    def draw(self, axes: Any, label: str) -> None:
        """Draw a bar for each arm and dtype."""
        arms = list(self.by_arm)
        axes.barh([f"{name}, {dtype.value}" for dtype, name in arms], [median(self.by_arm[arm]) for arm in arms])
        axes.invert_yaxis()
        axes.set_xlabel(label)

    def _cell(self, dtype: Dtype, name: str) -> Cell:
        return with_interval(self.summary(dtype, name)) if (dtype, name) in self.by_arm else None


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as what JSON can say."""
    return {"against": comparison.peer, **asdict(comparison.ratio)}
