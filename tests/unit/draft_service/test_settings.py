"""Settings of the draft service."""

from __future__ import annotations

from pathlib import Path

import pytest

from draft_service.drafters.build import build_drafter
from draft_service.drafters.choosing import MatchDraw
from draft_service.drafters.port import Abilities
from draft_service.engine.admission import LIGHT_TOKENS, Room, bounded_room
from draft_service.engine.run import bounded
from draft_service.service import run
from draft_service.settings import DraftAhead, DrafterChoice, DraftSettings
from foreword.errors import InvalidField, NotFound
from foreword.models.dtype import Dtype
from foreword.protocol.words import Drafter
from foreword.settings.load import load


def test_by_default_lookup_and_the_bundled_draft_write_in_turn() -> None:
    config = DraftSettings().engine_config()
    assert (config.drafter.kind, config.drafter.model) == (Drafter.MIXED, "bundled")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "synthetic:bogus=3"}, "model: got 'synthetic:bogus=3'"),
        ({"target": "no thing"}, "target: got 'no th"),
        ({"device": "foo"}, "device: got 'foo', wanted auto, cpu, cuda or cuda:N"),
    ],
)
def test_what_no_machine_could_load_is_refused_as_a_setting(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        DraftSettings(**given)


async def test_a_model_that_is_not_there_is_said_before_it_listens(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound, match=r"model: no folder \./nope"):
        await run(DraftSettings(drafter=DrafterChoice.MODEL, model="./nope"))
    assert "listening" not in capfd.readouterr().err


def test_lookup_needs_no_model() -> None:
    config = DraftSettings(drafter=DrafterChoice.LOOKUP).engine_config()
    abilities = build_drafter(config.drafter).abilities
    assert abilities.model is None
    room = bounded_room(config.policy.room, abilities)
    assert room == Room(256, LIGHT_TOKENS)


def test_a_models_cache_takes_a_share_of_the_memory_unless_a_number_is_set() -> None:
    """Draft and target are budgeted alike, so that neither runs out of memory with many sessions."""
    abilities = Abilities(Drafter.MODEL, 8192, 49152, None, cache_tokens=5_000)
    assert bounded_room(Room(7), abilities) == Room(7, 5_000)
    assert bounded_room(Room(7, 500), abilities) == Room(7, 500)


def test_flags_reach_the_engine(tmp_path: Path) -> None:
    flags = {
        "drafter": "model",
        "model": "owner/name",
        "dtype": "bfloat16",
        "threads": "2",
        "gamma_max": "8",
        "match_draw": "sampled",
        "total_bits": "4",
        "support_max": "64",
        "stop_threshold": "0.25",
        "lookup_min": "1",
        "max_sessions": "7",
        "max_tokens": "500",
        "cache": str(tmp_path),
    }
    config = load(DraftSettings, flags={(name,): value for name, value in flags.items()}).engine_config()
    assert (config.drafter.kind, config.drafter.model, config.drafter.dtype) == (
        Drafter.MODEL,
        "owner/name",
        Dtype.BFLOAT16,
    )
    assert (config.drafter.threads, config.drafter.cache) == (2, tmp_path)
    style = config.drafter.style
    assert (style.match_draw, style.total_bits, style.support_max) == (MatchDraw.SAMPLED, 4, 16)
    assert (config.policy.gamma_max, config.policy.stop_threshold) == (8, 0.25)
    assert (config.policy.room.sessions, config.policy.room.tokens) == (7, 500)
    assert config.drafter.lookup.shortest == 1


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("gamma_max", "0", r"gamma_max: got 0, wanted a whole number from 1 to 256 \(flag --gamma-max\)"),
        ("drafter", "oracle", r"drafter: got 'oracle', wanted one of model, lookup, mixed, synthetic"),
        ("support_mass", "1.5", "support_mass: got 1.5, wanted a number over 0 and up to 1"),
    ],
)
def test_what_is_out_of_range_is_named(flag: str, value: str, message: str) -> None:
    with pytest.raises(InvalidField, match=message):
        load(DraftSettings, flags={(flag,): value})


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("embedded", Drafter.MODEL),
        ("owner/synthetic", Drafter.MODEL),
        ("synthetic", Drafter.SYNTHETIC),
        ("synthetic:vocab=16", Drafter.SYNTHETIC),
    ],
)
def test_a_model_without_a_drafter_says_what_drafts(model: str, kind: Drafter) -> None:
    """It was left out without a word: lookup drafted."""
    config = load(DraftSettings, flags={("model",): model}).engine_config().drafter
    assert (config.kind, config.model) == (kind, model)


@pytest.mark.parametrize(("model", "wanted"), [("", "bundled"), ("synthetic:vocab=16", "synthetic:vocab=16")])
def test_a_mixed_drafter_takes_any_model(model: str, wanted: str) -> None:
    config = DraftSettings(drafter=DrafterChoice.MIXED, model=model).engine_config().drafter
    assert (config.kind, config.model) == (Drafter.MIXED, wanted)
    if model:
        abilities = build_drafter(config).abilities
        assert (abilities.kind, abilities.vocabulary_size) == (Drafter.MIXED, 16)


def test_lookup_with_a_model_is_refused() -> None:
    wanted = r"model: got 'embedded', wanted no model for the drafter lookup, .* \(flag --model\)"
    with pytest.raises(InvalidField, match=wanted):
        load(DraftSettings, flags={("drafter",): "lookup", ("model",): "embedded"})


@pytest.mark.parametrize("drafter", [DrafterChoice.MODEL, DrafterChoice.SYNTHETIC])
def test_a_model_of_the_wrong_kind_is_refused(drafter: DrafterChoice, tmp_path: Path) -> None:
    model = str(tmp_path) if drafter is DrafterChoice.SYNTHETIC else "synthetic:vocab=16"

    def build() -> None:
        build_drafter(DraftSettings(drafter=drafter, model=model, cache=tmp_path).engine_config().drafter)

    with pytest.raises(InvalidField, match="for the drafter"):
        build()


@pytest.mark.parametrize(("said", "meant"), [(True, DraftAhead.ON), (False, DraftAhead.OFF), ("auto", DraftAhead.AUTO)])
def test_switches_that_a_file_says_without_quotes_are_understood(said: object, meant: DraftAhead) -> None:
    assert DraftSettings(draft_ahead=said).draft_ahead is meant  # type: ignore[arg-type]


def test_a_name_is_what_requests_call_it() -> None:
    settings = DraftSettings(drafter=DrafterChoice.SYNTHETIC, name="quick")
    model = build_drafter(settings.engine_config().drafter).abilities.model
    assert model is not None
    assert model.name == "quick"


def test_a_missing_model_is_one_line(tmp_path: Path) -> None:
    settings = DraftSettings(drafter=DrafterChoice.MODEL, model=str(tmp_path / "none"), cache=tmp_path)
    with pytest.raises(NotFound, match="no folder"):
        build_drafter(settings.engine_config().drafter)


@pytest.mark.parametrize(
    ("choice", "on_gpu", "branches"),
    [("auto", False, 0), ("auto", True, 12), ("on", False, 12), ("on", True, 12), ("off", True, 0)],
)
def test_drafting_ahead_is_for_machines_with_time_to_spare(choice: str, on_gpu: bool, branches: int) -> None:
    config = DraftSettings(draft_ahead=choice, branches=12).engine_config()
    abilities = Abilities(Drafter.MODEL, 100, 100, None, on_gpu=on_gpu)
    assert bounded(config, abilities).branches == branches


def test_a_block_has_to_fit_into_a_frame() -> None:
    assert DraftSettings(gamma_max=256).engine_config().policy.gamma_max == 256
    settings = DraftSettings(gamma_max=64, support_max=4_096)
    with pytest.raises(InvalidField, match="gamma_max: got 64, wanted at most 42 with support_max 4096"):
        settings.engine_config()


def test_a_path_is_looked_at_where_files_are_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "draft.json").write_text("{}")
    DraftSettings(model=str(tmp_path)).check_files()
    DraftSettings().check_files()
    with pytest.raises(NotFound, match=r"^model: no folder /nope"):
        DraftSettings(model="/nope").check_files()
    with pytest.raises(NotFound, match=f"^target: no config.json in {tmp_path}"):
        DraftSettings(model=str(tmp_path), target=str(tmp_path)).check_files()
