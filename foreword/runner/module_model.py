"""Any decoder of transformers, on any device, as a `StepModel`: its own modules, with paged attention in them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel

from foreword.runner.activations import fix_activations
from foreword.runner.deterministic import fix_rows
from foreword.runner.key_values import KeyValues
from foreword.runner.layers import Manner
from foreword.runner.on_pages import OnPages
from foreword.runner.packed_linear import pack_linears
from foreword.runner.paged_attention import Step, use_paged_attention
from foreword.runner.plan import StepPlan
from foreword.runner.port import Logits


class ModuleModel(OnPages):
    """Runs plans by the module's own forward pass, all rows packed in one sequence [1, N].

    The module belongs to it from then on: its attention function is replaced, and on a CPU its linear
    layers and activations.
    """

    def __init__(
        self,
        module: PreTrainedModel,
        key_values: KeyValues,
        manners: Sequence[Manner],
        *,
        vocabulary_size: int,
        deterministic: bool,
    ) -> None:
        self._module = module
        super().__init__(key_values)
        self._key_values = key_values
        self._manners = tuple(manners)
        self._vocabulary_size = vocabulary_size
        use_paged_attention(module)
        with torch.inference_mode():
            pack_linears(module)
        if module.device.type == "cpu":
            fix_activations(module)
        if deterministic:
            fix_rows(module)  # those that are left: packed ones treat rows alike

    @property
    def vocabulary_size(self) -> int:
        """V: columns of the logits."""
        return self._vocabulary_size

    @torch.inference_mode()
    def run(self, plan: StepPlan) -> Logits:
        """Run the pass and return float32 [K, V], the logits of the wanted rows."""
        self._key_values.copy(plan.copies)
        device = self._module.device
        output = self._module(
            input_ids=torch.from_numpy(plan.tokens)[None].to(device, torch.long),
            position_ids=torch.from_numpy(plan.positions)[None].to(device, torch.long),
            use_cache=False,
            logits_to_keep=torch.from_numpy(plan.wanted).to(device, torch.long),
            foreword_step=Step(plan, self._key_values, self._manners),
        )
        logits: Logits = output.logits[0, :, : self._vocabulary_size].float().cpu().numpy()
        return logits
