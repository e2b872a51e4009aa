"""The loop of a worker process: questions come in as lines of JSON, answers go out so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def answer_questions(answer: Answer) -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()
