"""Which entry an engine process gets, and what is refused before anything is started."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")

from foreword.errors import EngineFailure, InvalidField
from foreword.protocol.info import ModelInfo
from foreword.settings.load import load as load_settings
from target_service import service
from target_service.engine.run import ENTRY, EngineSettings
from target_service.settings import TargetSettings
from target_service.tensor_parallel.cluster import joined_cluster
from target_service.tensor_parallel.run import check_model
from target_service.tensor_parallel.settings import GROUP_ENTRY, GroupedSettings, GroupSettings


def settings(model: str, size: int, **more: str) -> TargetSettings:
    flags = {("model",): model, ("tensor_parallel_size",): str(size), **{(name,): more[name] for name in more}}
    return load_settings(TargetSettings, flags=flags)


def test_one_rank_needs_no_group_and_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "find_spec", lambda name: None)
    entry, told = service.engine_entry(settings("embedded", 1), "me")
    assert entry == ENTRY
    assert isinstance(told, EngineSettings)
    assert not [
        name for name in service.engine_options(settings("embedded", 1)).environment if name == "RAY_AUTH_TOKEN"
    ]


def test_a_group_is_told_its_size_and_where_it_runs() -> None:
    asked = settings("embedded", 3, ray_address="10.0.0.1:6379", threads="2", device="cpu")
    entry, told = service.engine_entry(asked, "me")
    assert entry == GROUP_ENTRY
    assert isinstance(told, GroupedSettings)
    group = told.group
    assert (group.size, group.ray_address, group.threads, group.device) == (3, "10.0.0.1:6379", 2, "cpu")
    assert (group.rank_cpus, group.cpus) == (2, 6)


@pytest.mark.parametrize("size", [1, 3])
async def test_a_service_tells_of_its_size(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    process = service.TargetProcess(settings("synthetic", size))
    model = ModelInfo("m", "m", "", "", 64, 100, "float32")
    described = SimpleNamespace(model=model, cost_curve=(), local_drafter=None)
    monkeypatch.setattr(process, "_host", SimpleNamespace(described=described))
    assert process._info().tensor_parallel_size == size


def test_a_cluster_of_our_own_has_a_secret_of_its_own() -> None:
    own, again = (service.engine_options(settings("embedded", 3)).environment for _ in range(2))
    joined = service.engine_options(settings("embedded", 3, ray_address="10.0.0.1:6379")).environment
    assert own["RAY_USAGE_STATS_ENABLED"] == joined["RAY_USAGE_STATS_ENABLED"] == "0"
    assert own["RAY_AUTH_MODE"] == "token"
    assert len(own["RAY_AUTH_TOKEN"]) == 64
    assert own["RAY_AUTH_TOKEN"] != again["RAY_AUTH_TOKEN"]
    assert "RAY_AUTH_TOKEN" not in joined


def test_ranks_without_ray_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "find_spec", lambda name: None)
    with pytest.raises(InvalidField, match=r"tensor_parallel_size: got 3, wanted 1, because Ray is not installed"):
        service.engine_entry(settings("embedded", 3), "me")


@pytest.mark.parametrize(("size", "wanted"), [(2, "one of 1, 3, which divide"), (9, "one of 1, 3, which divide")])
def test_a_size_that_does_not_divide_the_heads_is_refused(tmp_path: Path, size: int, wanted: str) -> None:
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "tokenizer.json").touch()
    (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": 9, "num_key_value_heads": 3}))
    model = service.engine_settings(settings(str(tmp_path), size), "me").model
    with pytest.raises(InvalidField, match=f"tensor_parallel_size: got {size}, wanted {wanted}"):
        check_model(model, size)


def test_a_synthetic_model_has_one_rank() -> None:
    model = service.engine_settings(settings("synthetic", 2), "me").model
    with pytest.raises(InvalidField, match="tensor_parallel_size: got 2, wanted 1 for a synthetic model"):
        check_model(model, 2)


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "[::1]:{port}", "nowhere.invalid:6379", "127.0.0.1:99999"])
def test_a_cluster_that_nobody_listens_for_is_not_waited_for(address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    where = address.format(port=port)
    group = GroupSettings(2, ray_address=where)
    with pytest.raises(EngineFailure, match=f"Ray at {re.escape(where)}: cannot be reached: "), joined_cluster(group):
        raise AssertionError("it was joined")
