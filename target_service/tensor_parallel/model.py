"""A forward pass by all ranks: rank 0 tells the others the plan, and gets the columns of their heads."""

from __future__ import annotations

from foreword.errors import RunnerLost
from foreword.runner.plan import StepModel, StepPlan
from foreword.runner.port import Logits
from target_service.tensor_parallel.ranks import Ranks


def column_widths(embedding_rows: int, vocabulary_size: int, ranks: int) -> tuple[int, ...]:
    """Return how many columns of the logits each rank has: equal parts of the embedding's rows, less its padding."""
    part = -(-embedding_rows // ranks)
    return tuple(max(0, min(part, vocabulary_size - part * rank)) for rank in range(ranks))


class TensorParallelModel:
    """A `StepModel` on rank 0 of a group; the others run `follow`.

    Once a rank has been told a plan, nothing but its logits can follow: whatever goes wrong then leaves the ranks in
    different places, so it raises RunnerLost, and the group has to be started again.
    """

    def __init__(self, local: StepModel, ranks: Ranks, widths: tuple[int, ...]) -> None:
        self._local = local
        self._ranks = ranks
        self._widths = widths

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return sum(self._widths)

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self._local.page_size

    @property
    def pages(self) -> int:
        """Pages that there is room for; on every rank a page holds the keys and values of its own heads."""
        return self._local.pages

    def run(self, plan: StepPlan) -> Logits:
        """Run the pass and return float32 [K, V], the logits of the wanted rows."""
        numbers = plan.write()
        try:
            self._ranks.tell(numbers)
            logits = run_part(self._local, self._ranks, plan, self._widths)
        except Exception as error:
            raise RunnerLost(f"forward pass of {self._ranks.size} ranks: {error}") from error
        assert logits is not None
        return logits

    def dismiss(self) -> None:
        """Let the other ranks end."""
        self._ranks.dismiss()


def follow(local: StepModel, ranks: Ranks, widths: tuple[int, ...]) -> None:
    """Run the plans of rank 0 until it ends the group; raises what a pass fails with, after which the rank is lost."""
    while (numbers := ranks.hear()) is not None:
        run_part(local, ranks, StepPlan.read(numbers), widths)


def run_part(local: StepModel, ranks: Ranks, plan: StepPlan, widths: tuple[int, ...]) -> Logits | None:
    """Run this rank's part of a pass; rank 0 gets the logits."""
    columns = local.run(plan)[:, : widths[ranks.rank]]
    return ranks.gather(columns, widths)
