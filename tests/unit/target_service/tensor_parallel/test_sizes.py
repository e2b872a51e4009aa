"""Which numbers of ranks a model can be cut into."""

from __future__ import annotations

import pytest

from foreword.errors import InvalidField
from target_service.tensor_parallel.sizes import Heads, check_size, heads_of


@pytest.mark.parametrize(
    ("heads", "sizes"),
    [(Heads(9, 3), (1, 3)), (Heads(32, 8), (1, 2, 4, 8)), (Heads(8, 1), (1,)), (Heads(12, 12), (1, 2, 3, 4, 6, 12))],
)
def test_sizes_divide_both_kinds_of_heads(heads: Heads, sizes: tuple[int, ...]) -> None:
    assert heads.sizes == sizes
    for size in sizes:
        check_size(size, heads)


def test_a_refusal_names_the_sizes_that_work() -> None:
    with pytest.raises(InvalidField) as refused:
        check_size(2, Heads(9, 3))
    assert refused.value.message == (
        "tensor_parallel_size: got 2, wanted one of 1, 3, which divide the model's 9 query heads and 3 key/value heads"
    )


def test_heads_are_read_from_configs() -> None:
    assert heads_of({"num_attention_heads": 9, "num_key_value_heads": 3}) == Heads(9, 3)
    assert heads_of({"num_attention_heads": 12}) == Heads(12, 12)
    assert heads_of({"num_attention_heads": 12, "num_key_value_heads": None}) == Heads(12, 12)
    assert heads_of({"text_config": {"num_attention_heads": 8, "num_key_value_heads": 4}}) == Heads(8, 4)
    assert heads_of({"n_head": 12}) is None
