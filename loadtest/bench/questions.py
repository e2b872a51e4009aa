"""The loop of a worker process: questions come in as lines of JSON, answers go out so."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from foreword.errors import ForewordError

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def answer_questions(answer: Answer) -> None:
    """Answer until stdin ends; an error of ours is an answer too, with its message as `error`."""
    for line in sys.stdin:
        try:
            answered = answer(json.loads(line))
        except ForewordError as error:
            answered = {"error": error.message}
        sys.stdout.write(json.dumps(answered) + "\n")
        sys.stdout.flush()
