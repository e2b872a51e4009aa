"""Which extra of the package brings a module that is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXTRA_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": (
        *("typer", "rich", "structlog", "pydantic_settings", "prometheus_client", "yaml"),
        *("grpc_health", "grpc_reflection", "grpc_status", "google.rpc"),
    ),
    "models": ("torch", "transformers", "accelerate", "gguf", "safetensors", "tokenizers", "huggingface_hub", "jinja2"),
    "bench": ("matplotlib",),
    "ray": ("ray",),
}
"""Modules that each extra brings."""
_OWN: Final = ("foreword", "draft_service", "target_service", "orchestrator", "loadtest")


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return one line that says how to get the module that was not found."""
    name = error.name or "a module"
    if name.partition(".")[0] in _OWN:
        return f"{name} is missing from this installation; install foreword again"
    for extra, modules in EXTRA_MODULES.items():
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            return f"needs {name}: pip install 'foreword[{extra}]'"
    return f"needs {name}: pip install 'foreword[all]'"
