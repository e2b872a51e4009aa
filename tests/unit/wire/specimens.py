"""One message of every kind with every field set, for tests that need no more than that."""

from foreword.laws.parameters import Grammar, LawParameters
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

TICKET = bytes(range(16))
OTHER = bytes(range(16, 32))
DIGEST = 2**64 - 59
LAW = LawParameters(
    temperature=0.7,
    top_k=40,
    top_p=0.9,
    min_p=0.05,
    repetition_penalty=1.1,
    presence_penalty=0.25,
    frequency_penalty=-0.5,
    bias=((0, 1.5), (69_999, -2.0)),
    banned_ids=(3, 0),
    stop_ids=(2,),
    min_tokens=5,
    grammar=Grammar("regex", "[a-z]+"),
)
TRACE = Trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=1")

COMMIT = Commit(7, 9, 44, tokens=(0, 69_999, 3), digest=DIGEST, rule=Rule.BLOCK, order=BlockOrder(300, 4, TICKET))
TARGET_OPEN = TargetOpen(
    sid=7,
    tokens=tuple(range(20)),
    prompt_len=18,
    law=LAW,
    keys=TargetKeys(match=b"m" * 16, emit=b"e" * 16, coin=b"c" * 16),
    max_output=30,
    top_logprobs=3,
    cache_salt=b"salt",
    trace=TRACE,
    ticket=TICKET,
    first=Commit(7, 1, 2, tokens=(), digest=DIGEST, rule=Rule.MATCH, order=PlainOrder(28)),
)
TARGET_COMMANDS = (
    TARGET_OPEN,
    TargetTicket(7, OTHER),
    COMMIT,
    Commit(7, 10, 48, tokens=(5,), digest=1, rule=Rule.TOKEN, order=LocalOrder(Drafter.LOOKUP, 5, 16)),
    Recall(7, 10),
    TargetClose(7, 50, (0, 6)),
)

RESULT = Result(
    sid=7,
    round=9,
    base=44,
    final=True,
    kind=ResultKind.EVIDENCE,
    emit=(0, None, 69_999),
    ids=(0, 4),
    acceptance=(1 / 3, 1.0),
    parents=(0, 1),
    drafter=Drafter.MODEL,
    ratios=(1 / 3, 7.5),
    candidate_logprobs=LogProbabilities((-0.5, float("-inf")), (((0, -0.5), (9, -1.5)), ())),
    emit_logprobs=LogProbabilities((-0.25, -1.0, -2.0), (((1, -0.25),), ((2, -1.0),), ((3, -2.0),))),
    timing=RoundTiming(11, 12, -13, 14, 15, 16, 17),
)
TARGET_EVENTS = (
    TargetOpened(7, 16, 60, 1234),
    Refused(8, RefusalCode.FULL, "no pages free", 250),
    RESULT,
    Result(7, 10, 47, final=False, kind=ResultKind.PLAIN, emit=(0,)),
    Lost(9, LossCode.EVICTED, "its pages were needed"),
    LinkState(TICKET, "target-a", True),
    LoadReport(3, 1, 4096, 20_000, 0.35),
    TargetScored(7, 3, LogProbabilities((-0.5, -1.5), (((0, -0.5), (9, -1.5)), ((1, -1.5),)))),
)

SPARSE = SparseCounts((5, 0, 69_999), (1, 65_534, 1), 16)
BLOCK = Block(
    ticket=TICKET,
    round=9,
    base=44,
    digest=DIGEST,
    ids=(0, 69_999),
    drafter=Drafter.MIXED,
    law=(SPARSE, SPARSE),
    parents=(0, 0),
    draft_queue_us=21,
    draft_compute_us=22,
)
BLOCKS = (
    BLOCK,
    Block(OTHER, 9, 44, DIGEST, ids=(1, 2), drafter=Drafter.LOOKUP, law=OneHot()),
    Block(TICKET, 10, 47, 5, ids=(), drafter=Drafter.MODEL),
)
ANSWERS = (
    Receipt(TICKET, 9, DIGEST, ReceiptCode.TAKEN),
    Receipt(OTHER, 9, DIGEST, ReceiptCode.BAD, "ids: got 70000"),
    VerdictNotice(TICKET, 9, DIGEST, kept=2, emitted=0),
)

ADDRESS = TargetAddress("target.example:7000", "target-a", TICKET)
DRAFT_COMMANDS = (
    DraftOpen(
        sid=7,
        tokens=tuple(range(20)),
        prompt_len=18,
        law=LAW,
        keys=DraftKeys(b"d" * 16, b"m" * 16),
        target=ADDRESS,
        gamma_max=6,
        vocabulary_map_digest="abc",
        wide_ids=True,
        trace=TRACE,
    ),
    Advance(
        sid=7,
        round=9,
        base=44,
        tokens=(0, 69_999),
        digest=DIGEST,
        rule=Rule.TOKEN,
        gamma=4,
        stop_threshold=0.3,
        lookup_threshold=0.1,
        send_by_us=900,
        alternatives=2,
        target=ADDRESS,
    ),
    DraftClose(7),
)
DRAFT_EVENTS = (
    DraftOpened(7, 60),
    Refused(8, RefusalCode.MISMATCH, "vocabulary"),
    Follow(7, 44, 10, 7),
    Lost(9, LossCode.DRAINING, "shutting down"),
    LinkState(OTHER, "", False),
    LoadReport(3),
)
