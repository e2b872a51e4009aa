"""The draft service over real gRPC, its engine in a process of its own, against scripted peers."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trustme

from draft_service.settings import DraftAhead, DrafterChoice
from foreword.errors import ForewordError, Unauthorized, Unavailable
from foreword.laws.counts import validate_block
from foreword.laws.parameters import LawParameters
from foreword.protocol.digest import extend
from foreword.protocol.messages import Advance, Block, DraftOpened, Follow, LinkState, Lost, OneHot, Receipt, Refused
from foreword.protocol.words import Drafter, LossCode, ReceiptCode, RefusalCode, Rule
from foreword.rpc.roles import Role, RolePolicy
from foreword.rpc.tls import TlsFiles
from foreword.settings.base import TlsSettings
from foreword.values import replace
from tests.integration.draft_service.conftest import (
    RunningDraft,
    ScriptedOrchestrator,
    ScriptedTarget,
    Start,
)

Scene = tuple[RunningDraft, ScriptedTarget, ScriptedOrchestrator]


async def test_blocks_go_to_the_target_and_verdicts_start_the_next(scene: Scene) -> None:
    draft, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    assert await orchestrator.next(DraftOpened) == DraftOpened(1, 512)
    orchestrator.order(1, 1)
    first = await target.next(Block)
    assert (first.round, first.base, first.digest, len(first.ids)) == (1, 0, orchestrator.digest(1), 4)
    assert first.law is None
    target.verdict(first, 2, 9)
    second = await target.block(2)  # no Advance has come
    assert second.base == 3
    assert second.digest == extend(orchestrator.digest(1), (*first.ids[:2], 9))
    orchestrator.order(1, 2, (*first.ids[:2], 9))
    target.verdict(second, 4, 8)
    await target.block(3)
    sample = draft.registry.get_sample_value
    assert (sample("foreword_draft_blocks_total") or 0.0) >= 3
    assert (sample("foreword_draft_tokens_total") or 0.0) >= 12
    assert (sample("foreword_draft_queue_seconds_count") or 0.0) >= 3
    assert (sample("foreword_draft_compute_seconds_sum") or 0.0) >= 12 * 0.0002


async def test_laws_on_the_wire_are_laws(scene: Scene) -> None:
    _, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1), law=LawParameters(temperature=0.8))
    orchestrator.order(1, 1, rule=Rule.BLOCK, gamma=6)
    block = await target.next(Block)
    assert isinstance(block.law, tuple)
    validate_block(block.law, block.ids, 64)
    assert len(block.law) == len(block.ids) == 6


async def test_many_sessions_share_frames_and_none_is_lost(scene: Scene) -> None:
    _, target, orchestrator = scene
    for sid in range(24):
        orchestrator.open(sid, target.ticket(sid))
        orchestrator.order(sid, 1)
    missing = {target.ticket(sid).ticket for sid in range(24)}
    while missing:
        missing.discard((await target.next(Block)).ticket)


async def test_a_draft_says_what_it_is(scene: Scene) -> None:
    draft, _, _ = scene
    info = await draft.info()
    assert info.gamma_max == 16
    assert info.server.drafter is Drafter.SYNTHETIC
    assert info.server.address == draft.address
    assert info.server.instance == draft.process.instance
    assert info.server.model is not None
    assert info.server.model.vocabulary_size == 64
    assert [point.rows for point in info.server.cost_curve] == [1, 2, 4, 8, 16]


async def test_an_id_out_of_range_costs_its_session_and_no_other(scene: Scene) -> None:
    _, target, orchestrator = scene
    for sid in (1, 2):
        orchestrator.open(sid, target.ticket(sid))
        await orchestrator.next(DraftOpened)
    orchestrator.send(Advance(1, 1, 1, (64,), 0, Rule.MATCH, 4))
    lost = await orchestrator.next(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.PROTOCOL)
    assert lost.message == "advance.tokens: got 64, wanted token ids from 0 to 63"
    orchestrator.order(2, 1)
    assert (await target.next(Block)).ticket == target.ticket(2).ticket
    orchestrator.open(3, target.ticket(3), tokens=(1, 99))
    refused = await orchestrator.next(Refused)
    assert (refused.sid, refused.code) == (3, RefusalCode.BAD)


async def test_following_tells_how_guesses_went(scene: Scene) -> None:
    _, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    orchestrator.order(1, 1, gamma=0)
    orchestrator.order(1, 2, tuple(range(8)), gamma=0)
    follow = await orchestrator.next(Follow)
    assert (follow.base, follow.compared) == (8, 8)


async def test_lookup_needs_no_model(start: Start) -> None:
    async with ScriptedTarget("T1") as target, start(DrafterChoice.LOOKUP, model="", name="fast") as draft:
        info = await draft.info()
        assert (info.server.model, info.server.called) == (None, "fast")
        assert info.server.drafter is Drafter.LOOKUP
        async with draft.orchestrator() as orchestrator:
            orchestrator.open(1, target.ticket(1), tokens=(1, 2, 3, 4, 5, 70_000, 1, 2, 3))
            orchestrator.order(1, 1, rule=Rule.BLOCK)
            block = await target.next(Block)
            assert block.ids == (4, 5, 70_000, 1)
            assert block.law == OneHot()
            target.verdict(block, 0, 9)
            assert (await target.block(2)).ids == ()


async def test_a_mixed_draft_says_of_each_block_who_wrote_it(start: Start) -> None:
    async with ScriptedTarget("T1") as target, start(DrafterChoice.MIXED) as draft:
        info = await draft.info()
        assert info.server.drafter is Drafter.MIXED
        assert info.server.model is not None
        async with draft.orchestrator() as orchestrator:
            orchestrator.open(1, target.ticket(1), tokens=(1, 2, 3, 4, 5, 1, 2, 3))
            orchestrator.order(1, 1)
            block = await target.next(Block)
            assert (block.ids, block.drafter) == ((4, 5, 1, 2), Drafter.LOOKUP)
            target.verdict(block, 1, 60)
            block = await target.block(2)  # 4, 60 never came before
            assert (len(block.ids), block.drafter) == (4, Drafter.SYNTHETIC)


async def test_a_broken_link_is_told_and_dialled_again_and_the_block_comes_again(scene: Scene) -> None:
    _, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    orchestrator.order(1, 1)
    block = await target.next(Block)
    assert target.link is not None
    target.link.abort(Unavailable("cut"))
    ticket = target.ticket(1).ticket
    assert await orchestrator.next(LinkState) == LinkState(ticket, "T1", up=False)
    assert await orchestrator.next(LinkState) == LinkState(ticket, "T1", up=True)
    again = await target.next(Block)  # on the new link it comes with its full ticket, or it could not be decoded
    assert again == block


async def test_a_target_that_is_not_there_is_told_once(start: Start) -> None:
    async with start() as draft, draft.orchestrator() as orchestrator:
        target = ScriptedTarget("T1")
        target.address = "127.0.0.1:1"
        orchestrator.open(1, target.ticket(1))
        assert await orchestrator.next(LinkState) == LinkState(target.ticket(1).ticket, "T1", up=False)
        with pytest.raises(TimeoutError):
            await orchestrator.next(LinkState, within_s=0.6)


async def test_a_restarted_target_is_not_the_one_that_was_meant(scene: Scene) -> None:
    _, target, orchestrator = scene
    meant = replace(target.ticket(1), instance="T0")
    orchestrator.open(1, meant)
    orchestrator.order(1, 1)
    assert await orchestrator.next(LinkState) == LinkState(meant.ticket, "T1", up=False)
    orchestrator.order(1, 2, (5,), target=replace(target.ticket(2), instance="T1"))
    block = await target.next(Block)
    assert (block.ticket, block.round) == (target.ticket(2).ticket, 2)  # and nothing came under the first ticket


async def test_an_unknown_ticket_is_offered_again(scene: Scene) -> None:
    _, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    orchestrator.order(1, 1)
    block = await target.next(Block)
    target.send(Receipt(block.ticket, block.round, block.digest, ReceiptCode.UNKNOWN))
    assert await target.next(Block) == block


async def test_a_streams_end_releases_its_sessions(start: Start) -> None:
    async with ScriptedTarget("T1") as target, start(max_sessions=1) as draft:
        async with draft.orchestrator() as orchestrator:
            orchestrator.open(1, target.ticket(1))
            await orchestrator.next(DraftOpened)
            orchestrator.open(2, target.ticket(2))
            refused = await orchestrator.next(Refused)
            assert (refused.sid, refused.code, refused.retry_after_ms) == (2, RefusalCode.FULL, 1000)
        async with draft.orchestrator() as orchestrator:
            orchestrator.open(1, target.ticket(3))
            assert await orchestrator.next(DraftOpened) == DraftOpened(1, 512)


async def test_draining_moves_sessions_away_and_ends_streams_in_good_order(scene: Scene) -> None:
    draft, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    await orchestrator.next(DraftOpened)
    draft.stop.set()
    lost = await orchestrator.next(Lost)
    assert (lost.sid, lost.code) == (1, LossCode.DRAINING)
    async with asyncio.timeout(120.0):
        while (end := await orchestrator.came.get()) is not None:
            assert not isinstance(end, ForewordError), end


async def test_a_dead_engine_ends_the_streams_and_another_takes_its_place(scene: Scene) -> None:
    draft, target, orchestrator = scene
    orchestrator.open(1, target.ticket(1))
    await orchestrator.next(DraftOpened)
    pid = draft.process.engine_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    error = await orchestrator.next(ForewordError)
    assert "killed by signal 9" in error.message
    with pytest.raises(Unavailable, match="the engine is not ready"):
        async with draft.orchestrator():
            raise AssertionError("it attached")
    assert await draft.next_engine() != pid
    async with draft.orchestrator() as second:
        second.open(1, target.ticket(2))
        await second.next(DraftOpened)
        second.order(1, 1)
        assert (await target.next(Block)).ticket == target.ticket(2).ticket
        draft.stop.set()  # sessions of the second engine are moved away like those of the first
        assert (await second.next(Lost)).code is LossCode.DRAINING


async def test_a_model_that_is_not_there_is_one_line(start: Start, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ForewordError, match=f"model: no folder {missing}"):
        async with start(DrafterChoice.MODEL, model=str(missing)):
            raise AssertionError("it started")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TlsFiles]:
    """Certificates of a draft, a target and an orchestrator, by one authority."""
    folder, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    files = {}
    for name in ("draft", "target", "orchestrator"):
        issued = authority.issue_cert(f"{name}.example", "127.0.0.1")
        certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        files[name] = TlsFiles(certificate, key, folder / "ca.pem")
    return files


async def test_only_orchestrators_attach_and_links_to_targets_are_mutual(
    start: Start, certificates: dict[str, TlsFiles]
) -> None:
    mine = certificates["draft"]
    roles = {f"{role.value}.example": frozenset({role}) for role in (Role.DRAFT, Role.TARGET, Role.ORCHESTRATOR)}
    tls = TlsSettings(cert=mine.certificate, key=mine.key, ca=mine.authority, roles=roles)
    target = ScriptedTarget("T1", tls=certificates["target"], roles=RolePolicy(roles))
    async with target, start(tls=tls) as draft:
        assert (await draft.info(certificates["target"])).server.address == draft.address
        with pytest.raises(Unauthorized, match=r"DraftService/Attach: got target\.example"):
            async with draft.orchestrator(certificates["target"]):
                raise AssertionError("it attached")
        async with draft.orchestrator(certificates["orchestrator"]) as orchestrator:
            orchestrator.open(1, target.ticket(1))
            orchestrator.order(1, 1)
            assert len((await target.next(Block)).ids) == 4


async def test_plaintext_to_a_target_off_loopback_is_refused(scene: Scene) -> None:
    draft, target, orchestrator = scene
    far = replace(target.ticket(1), address="192.0.2.1:50051")
    orchestrator.open(1, far)
    assert await orchestrator.next(LinkState) == LinkState(far.ticket, "T1", up=False)
    assert draft.count("target_refused") == 1


async def test_blocks_for_likely_outcomes_come_before_the_verdict(start: Start) -> None:
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(ScriptedTarget("T1"))
        draft = await stack.enter_async_context(start(draft_ahead=DraftAhead.ON, branches=8))
        orchestrator = await stack.enter_async_context(draft.orchestrator())
        orchestrator.open(1, target.ticket(1))
        orchestrator.order(1, 1, alternatives=2)
        came: dict[tuple[int, int], Block] = {}
        while len(came) < 3:  # in any order, and twice where the link came up amid them
            block = await target.next(Block)
            came[block.round, block.digest] = block
        first, *shipped = sorted(came.values(), key=lambda block: (block.round, block.base != 5))
        # Two outcomes of this round, or one and what may follow it.
        assert [block.round for block in shipped] in ([2, 2], [2, 3])
        assert {(block.draft_queue_us, block.draft_compute_us) for block in shipped} == {(0, 0)}
        likeliest = shipped[0]
        kept = likeliest.base - 1
        token = next(t for t in range(64) if extend(first.digest, (*first.ids[:kept], t)) == likeliest.digest)
        target.verdict(first, kept, token)
        orchestrator.order(1, 2, (*first.ids[:kept], token), gamma=4)
        target.verdict(likeliest, len(likeliest.ids), 63)
        orchestrator.order(1, 3, (*likeliest.ids, 63), gamma=4)
        while (third := await target.block(3)).digest != orchestrator.digest(1):
            pass  # it was shipped for another outcome
        assert len(third.ids) == 4
