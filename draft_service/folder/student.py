"""The model that is trained: a few of the target's layers between its own embedding and a part of its head."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel


class Student(nn.Module):
    """Scores `ids` alone; embedding and head rows are the target's and stay as they are."""

    def __init__(self, target: PreTrainedModel, layers: Sequence[int], ids: Sequence[int]) -> None:
        """Copy `layers` of the target (numbers from 0, in order) and its last norm; take the head's rows of `ids`."""
        super().__init__()
        decoder: Any = target.model
        config = copy.deepcopy(target.config)
        config.num_hidden_layers = len(layers)
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[number] for number in layers]
        with torch.device("meta"):
            shell: Any = AutoModelForCausalLM.from_config(config).model  # type: ignore[no-untyped-call]
        shell.layers = nn.ModuleList([copy.deepcopy(decoder.layers[number]) for number in layers])
        for place, layer in enumerate(shell.layers):
            layer.self_attn.layer_idx = place
        shell.norm = copy.deepcopy(decoder.norm)
        shell.rotary_emb = copy.deepcopy(decoder.rotary_emb)
        shell.embed_tokens = copy.deepcopy(decoder.embed_tokens).requires_grad_(False)
        for part in shell.modules():  # copies came with configs of their own, and attention is chosen by config
            if hasattr(part, "config"):
                part.config = config
        self.config = config
        self.decoder = shell
        head: Any = target.get_output_embeddings()  # type: ignore[no-untyped-call]
        rows = head.weight.detach()[torch.tensor(list(ids))]
        self.register_buffer("head", rows.float().clone(), persistent=False)
        self.float()

    def trained(self) -> dict[str, nn.Parameter]:
        """Return what training changes and a draft stores, by name."""
        return {name: one for name, one in self.decoder.named_parameters() if one.requires_grad}

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return float32 [R, ids] for int64 tokens [B, T], bool mask [B, T], and int64 rows [R] of the flat batch."""
        hidden = self.decoder(input_ids=tokens, attention_mask=mask.long(), use_cache=False).last_hidden_state
        chosen = hidden.reshape(-1, hidden.shape[-1])[rows]
        logits: torch.Tensor = chosen @ self.get_buffer("head").T
        return logits
