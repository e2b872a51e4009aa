"""Runs a process that answers questions with torch: `python -m MODULE FOLDER THREADS`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from foreword.models.quiet import quiet
from loadtest.bench.questions import answer_questions


class TorchWorker(Protocol):
    """What answers."""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question."""


def run_worker(make: Callable[[str], TorchWorker], folder: str, threads: int) -> None:
    """Answer questions about the models of a folder until stdin ends."""
    torch.set_num_threads(threads)
    with quiet():
        worker = make(folder)
    with torch.inference_mode():
        answer_questions(worker.answer)
