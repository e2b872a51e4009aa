"""Hypothesis strategies for every message of the protocol, within LIMITS."""

import struct

from hypothesis import strategies as st

from foreword.laws.parameters import Grammar, LawParameters
from foreword.protocol.info import CostPoint, DraftInfo, ModelInfo, ServerInfo
from foreword.protocol.messages import (
    Advance,
    Block,
    BlockOrder,
    Commit,
    DraftClose,
    DraftKeys,
    DraftOpen,
    DraftOpened,
    Follow,
    LinkState,
    LoadReport,
    LocalOrder,
    LogProbabilities,
    Lost,
    OneHot,
    PlainOrder,
    Recall,
    Receipt,
    Refused,
    Result,
    RoundTiming,
    SparseCounts,
    TargetAddress,
    TargetClose,
    TargetKeys,
    TargetOpen,
    TargetOpened,
    TargetScored,
    TargetTicket,
    Trace,
    VerdictNotice,
)
from foreword.protocol.words import Drafter, LossCode, ReceiptCode, RefusalCode, ResultKind, Rule
from foreword.wire.law import GRAMMAR_KINDS
from foreword.wire.limits import Limits

LIMITS = Limits(
    tokens=64, chunk=8, vocabulary=70_000, gamma=6, support=8, top_logprobs=4, law_ids=6, grammar=40, text=80
)

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
ids = st.integers(0, LIMITS.vocabulary - 1)
counts = st.integers(0, LIMITS.tokens)
keys = st.binary(min_size=16, max_size=16)
short = st.text(max_size=LIMITS.text)
waits = st.integers(0, LIMITS.wait_us)
shares = st.floats(0.0, 1.0)
gammas = st.integers(1, LIMITS.gamma)
rules = st.sampled_from(Rule)
drafters = st.sampled_from(Drafter)
f32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
logprobs_f32 = st.one_of(st.floats(max_value=0.0, width=32, allow_nan=False), st.just(float("-inf")))


def tokens(most=LIMITS.tokens, least=0):
    return st.lists(ids, min_size=least, max_size=most).map(tuple)


grammars = st.builds(Grammar, kind=st.sampled_from(sorted(GRAMMAR_KINDS)), source=st.text(max_size=LIMITS.grammar))
traces = st.builds(Trace, parent=short, state=short)
laws = st.builds(
    LawParameters,
    temperature=st.floats(0.0, 100.0),
    top_k=st.none() | st.integers(1, 2**32 - 1),
    top_p=st.none() | st.floats(0.0, 1.0, exclude_min=True),
    min_p=st.none() | shares,
    repetition_penalty=st.floats(0.01, 100.0),
    presence_penalty=st.floats(-100.0, 100.0),
    frequency_penalty=st.floats(-100.0, 100.0),
    bias=st.lists(st.tuples(ids, st.floats(-(2**20), 2**20, width=32)), max_size=LIMITS.law_ids).map(tuple),
    banned_ids=tokens(LIMITS.law_ids),
    stop_ids=tokens(LIMITS.law_ids),
    min_tokens=u32,
    grammar=st.none() | grammars,
)

orders = st.one_of(
    st.builds(BlockOrder, wait_us=waits, gamma=gammas, ticket=keys),
    st.builds(PlainOrder, limit=st.integers(1, LIMITS.tokens)),
    st.builds(LocalOrder, drafter=drafters, gamma=gammas, limit=st.integers(1, LIMITS.tokens)),
)


@st.composite
def commits(draw, sid=u32):
    base = draw(counts)
    return Commit(
        sid=draw(sid),
        round=draw(u32),
        base=base,
        tokens=draw(tokens(base)),
        digest=draw(u64),
        rule=draw(rules),
        order=draw(orders),
    )


@st.composite
def target_opens(draw):
    prompt = draw(tokens(least=1))
    sid = draw(u32)
    return TargetOpen(
        sid=sid,
        tokens=prompt,
        prompt_len=draw(st.integers(1, len(prompt))),
        law=draw(laws),
        keys=draw(st.builds(TargetKeys, match=keys, emit=keys, coin=keys)),
        max_output=draw(counts),
        top_logprobs=draw(st.none() | st.integers(0, LIMITS.top_logprobs)),
        cache_salt=draw(st.binary(max_size=64)),
        trace=draw(traces),
        ticket=draw(st.none() | keys),
        first=draw(st.none() | commits(sid=st.just(sid))),
        prompt_logprobs=draw(st.none() | st.integers(0, LIMITS.top_logprobs)),
    )


@st.composite
def target_closes(draw):
    length = draw(counts)
    return TargetClose(draw(u32), length, draw(tokens(length)))


target_commands = st.one_of(
    commits(),
    target_opens(),
    st.builds(TargetTicket, sid=u32, ticket=keys),
    st.builds(Recall, sid=u32, round=u32),
    target_closes(),
)

timings = st.builds(
    RoundTiming,
    verify_queue_us=u64,
    verify_compute_us=u64,
    block_lag_us=st.none() | st.integers(-(2**63), 2**63 - 1),
    draft_queue_us=st.none() | u64,
    draft_compute_us=st.none() | u64,
    step_rows=u32,
    evidence_us=u64,
    others_us=u64,
)


@st.composite
def log_probabilities(draw, count):
    row = st.lists(st.tuples(ids, logprobs_f32), max_size=LIMITS.top_logprobs).map(tuple)
    top = draw(st.just(()) | st.lists(row, min_size=count, max_size=count).map(tuple)) if count else ()
    return LogProbabilities(tuple(draw(st.lists(logprobs_f32, min_size=count, max_size=count))), top)


def chain_or_tree(count):
    trees = st.tuples(*(st.integers(0, index) for index in range(count)))
    return st.none() | trees


@st.composite
def results(draw):
    kind = draw(st.sampled_from(ResultKind))
    verified = draw(tokens(LIMITS.gamma)) if kind is ResultKind.EVIDENCE else ()
    count = len(verified)

    def each(values):
        return st.lists(values, min_size=count, max_size=count).map(tuple)

    return Result(
        sid=draw(u32),
        round=draw(u32),
        base=draw(counts),
        final=draw(st.booleans()),
        kind=kind,
        emit=tuple(draw(st.lists(st.none() | ids, min_size=count + 1, max_size=count + 1))),
        ids=verified,
        acceptance=draw(each(shares)),
        parents=draw(chain_or_tree(count)),
        drafter=draw(st.none() | drafters),
        ratios=draw(st.none() | each(st.floats(0.0, allow_infinity=False, allow_nan=False))),
        candidate_logprobs=draw(st.none() | log_probabilities(count)),
        emit_logprobs=draw(st.none() | log_probabilities(count + 1)),
        timing=draw(timings),
    )


refusals = st.builds(Refused, sid=u32, code=st.sampled_from(RefusalCode), message=short, retry_after_ms=st.none() | u32)
losses = st.builds(Lost, sid=u32, code=st.sampled_from(LossCode), message=short)
link_states = st.builds(LinkState, ticket=keys, target_instance=short, up=st.booleans())
load_reports = st.builds(LoadReport, sessions=u32, waiting=u32, free_tokens=st.none() | u64, step_us=u32, price=shares)

target_events = st.one_of(
    results(),
    st.builds(TargetOpened, sid=u32, cached_tokens=counts, longest_length=u32, prefill_us=u64),
    st.builds(
        TargetScored,
        sid=u32,
        position=st.integers(1, LIMITS.tokens),
        logprobs=st.integers(0, 4).flatmap(log_probabilities),
    ),
    refusals,
    losses,
    link_states,
    load_reports,
)


@st.composite
def sparse_laws(draw, candidate, bits):
    support = draw(st.lists(ids, max_size=min(LIMITS.support, 2**bits) - 1, unique=True).map(tuple))
    support = tuple(dict.fromkeys((*support, candidate)))[: 2**bits]
    if candidate not in support:
        support = (*support[:-1], candidate)
    cuts = sorted(draw(st.sets(st.integers(1, 2**bits - 1), min_size=len(support) - 1, max_size=len(support) - 1)))
    shares_of = tuple(b - a for a, b in zip((0, *cuts), (*cuts, 2**bits), strict=True))
    return SparseCounts(support, shares_of, bits)


@st.composite
def blocks(draw, tickets=keys):
    candidates = draw(tokens(LIMITS.gamma))
    form = draw(st.sampled_from(["none", "one_hot", "counts"]))
    law = {"none": None, "one_hot": OneHot()}.get(form)
    if form == "counts":
        bits = draw(st.integers(1, 16))
        law = tuple(draw(sparse_laws(candidate, bits)) for candidate in candidates)
    return Block(
        ticket=draw(tickets),
        round=draw(u32),
        base=draw(counts),
        digest=draw(u64),
        ids=candidates,
        drafter=draw(drafters),
        law=law,
        parents=draw(chain_or_tree(len(candidates))),
        draft_queue_us=draw(waits),
        draft_compute_us=draw(waits),
    )


def answers(tickets):
    receipts = st.builds(
        Receipt, ticket=tickets, round=u32, digest=u64, code=st.sampled_from(ReceiptCode), message=short
    )
    verdicts = st.builds(
        VerdictNotice, ticket=tickets, round=u32, digest=u64, kept=st.integers(0, LIMITS.gamma), emitted=ids
    )
    return receipts | verdicts


addresses = st.builds(TargetAddress, address=st.text(min_size=1, max_size=LIMITS.text), instance=short, ticket=keys)


@st.composite
def draft_opens(draw):
    prompt = draw(tokens(least=1))
    return DraftOpen(
        sid=draw(u32),
        tokens=prompt,
        prompt_len=draw(st.integers(1, len(prompt))),
        law=draw(laws),
        keys=draw(st.builds(DraftKeys, draft=keys, match=st.none() | keys)),
        target=draw(addresses),
        gamma_max=draw(st.integers(0, LIMITS.gamma)),
        vocabulary_map_digest=draw(short),
        cache_salt=draw(st.binary(max_size=64)),
        wide_ids=draw(st.booleans()),
        trace=draw(traces),
    )


@st.composite
def advances(draw):
    base = draw(counts)
    return Advance(
        sid=draw(u32),
        round=draw(u32),
        base=base,
        tokens=draw(tokens(base)),
        digest=draw(u64),
        rule=draw(rules),
        gamma=draw(st.integers(0, LIMITS.gamma)),
        stop_threshold=draw(shares),
        lookup_threshold=draw(shares),
        send_by_us=draw(st.none() | waits),
        alternatives=draw(st.integers(0, LIMITS.gamma)),
        target=draw(st.none() | addresses),
    )


draft_commands = st.one_of(draft_opens(), advances(), st.builds(DraftClose, sid=u32))


@st.composite
def follows(draw):
    compared = draw(counts)
    return Follow(draw(u32), draw(counts), compared=compared, agreed=draw(st.integers(0, compared)))


draft_events = st.one_of(
    st.builds(DraftOpened, sid=u32, longest_length=u32), refusals, losses, follows(), link_states, load_reports
)

models = st.builds(
    ModelInfo,
    name=short,
    source=short,
    weights_digest=short,
    tokenizer_digest=short,
    vocabulary_size=u32,
    longest_context=u32,
    dtype=short,
    eos_ids=tokens(LIMITS.law_ids),
)
servers = st.builds(
    ServerInfo,
    model=st.none() | models,
    instance=short,
    address=short,
    version=short,
    protocol_min=u32,
    protocol_max=u32,
    tensor_parallel_size=u32,
    cost_curve=st.lists(st.builds(CostPoint, rows=u32, context=u32, step_us=u32), max_size=4).map(tuple),
    drafter=st.none() | drafters,
    local_drafter=st.none() | drafters,
    sessions=u32,
    name=short,
    gamma_max=st.none() | st.integers(0, LIMITS.gamma),
)
draft_infos = st.builds(DraftInfo, server=servers, gamma_max=st.integers(0, LIMITS.gamma), vocabulary_map_digest=short)


def f32_of(value):
    """Return the nearest 32-bit number."""
    return struct.unpack("<f", struct.pack("<f", value))[0]
