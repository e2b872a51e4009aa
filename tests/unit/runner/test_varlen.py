"""What the GPU's attention is told, by a stand-in that does what the documentation of torch's kernel says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from foreword.runner import varlen, ways
from foreword.runner.layers import CacheShape, Manner
from foreword.runner.varlen import VarlenKeyValues
from tests.unit.runner.test_paged import TEXTS, own_logits, replay, run
from tests.unit.runner.tiny import config, module


def stand_in(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa, seqused_k,
             block_table, num_splits):  # fmt: skip
    assert cu_seq_k is None
    assert num_splits is None
    assert {cu_seq_q.dtype, seqused_k.dtype, block_table.dtype} == {torch.int32}
    assert int(seqused_k.max()) <= max_k
    assert int(cu_seq_q.diff().max()) <= max_q
    out = torch.empty_like(query)
    for n, pages in enumerate(block_table.tolist()):
        first, last, length = int(cu_seq_q[n]), int(cu_seq_q[n + 1]), int(seqused_k[n])
        held = pages[: -(-length // key.shape[1])]
        keys, values = (pool[held].flatten(0, 1)[:length].transpose(0, 1) for pool in (key, value))
        # aligned at the end: the last query sees the last key
        places = torch.arange(length - (last - first), length)[:, None]
        seen = torch.arange(length)[None] <= places
        if window_size[0] >= 0:
            seen &= torch.arange(length)[None] >= places - window_size[0]
        rows = query[first:last].transpose(0, 1)
        attended = scaled_dot_product_attention(
            rows[None], keys[None], values[None], attn_mask=seen, scale=scale, enable_gqa=enable_gqa
        )
        out[first:last] = attended[0].transpose(0, 1)
    return out


@pytest.mark.parametrize("family", ["llama", "mistral with a window", "gemma", "gemma3", "gpt_neox"])
def test_rows_of_many_sessions_score_as_in_the_model_itself(monkeypatch, family):
    monkeypatch.setattr(varlen, "varlen_attn", stand_in)
    monkeypatch.setattr(VarlenKeyValues, "fits", staticmethod(lambda *_: True))
    monkeypatch.setattr("foreword.runner.real.WAYS", (ways.with_block_tables,))
    model = module(config(family))
    wanted = [own_logits(model, text) for text in TEXTS]
    for got, own in zip(replay(run(model)), wanted, strict=True):
        np.testing.assert_allclose(got, own, atol=1e-4, rtol=0)


def test_pages_are_copied():

    held = VarlenKeyValues(CacheShape(2, 1, 8), pages=4, page_size=16, dtype=torch.float32, device=torch.device("cpu"))
    held._keys[:, 1] = 5
    held._values[:, 2] = 7
    held.copy([(1, 3), (2, 0)])
    assert (held._keys[:, 3] == 5).all()
    assert (held._values[:, 0] == 7).all()
    assert (held._keys[:, 0] == 0).all()


def test_soft_caps_float32_and_cpus_are_not_for_it():

    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert VarlenKeyValues.fits(torch.bfloat16, gpu, [Manner(1.0)])
    assert not VarlenKeyValues.fits(torch.float32, gpu, [Manner(1.0)])
    assert not VarlenKeyValues.fits(torch.bfloat16, cpu, [Manner(1.0)])
    assert not VarlenKeyValues.fits(torch.bfloat16, gpu, [Manner(1.0), Manner(1.0, softcap=5.0)])
