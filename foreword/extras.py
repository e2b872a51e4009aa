"""Which extra of the package brings a module that is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

from foreword.errors import NotFound

EXTRA_MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    "serve": (
        *("typer", "rich", "structlog", "pydantic_settings", "prometheus_client", "yaml"),
        *("grpc_health", "grpc_reflection", "grpc_status", "google.rpc"),
    ),
    "http": ("fastapi", "starlette", "uvicorn"),
    "models": ("torch", "transformers", "accelerate", "gguf", "safetensors", "tokenizers", "huggingface_hub", "jinja2"),
    "grammar": ("llguidance",),
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
    return f"needs {name}; {how_to_install(name)}"


def check_installed(*modules: str) -> None:
    """Raise NotFound, with how to get it, for the first of these modules that is not installed; imports none of them.

    Names of packages, without a dot: looking for a part of a package would import the package.
    """
    for name in modules:
        if find_spec(name) is None:
            raise NotFound(f"needs {name}; {how_to_install(name)}")


def how_to_install(name: str) -> str:
    """Say which extra brings a module; foreword is installed from a checkout, so that is where pip is run."""
    brings = (
        extra
        for extra, modules in EXTRA_MODULES.items()
        if any(name == module or name.startswith(f"{module}.") for module in modules)
    )
    return f"install the extra: pip install '.[{next(brings, 'all')}]' in the checkout"
