"""Log-probabilities of prompts against transformers: over gRPC, and over HTTP as lm-eval-harness asks for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2
import numpy as np
import pytest
import pytest_asyncio

from foreword.client import AsyncClient
from foreword.errors import InvalidField
from foreword.protocol.words import FinishReason
from orchestrator.http.settings import HttpSettings
from tests.integration.orchestrator.services import start_draft, start_orchestrator, start_target
from tests.integration.orchestrator.web import client_of, events_in
from tests.unit.models.kit import byte_level, write_model

pytestmark = pytest.mark.asyncio(loop_scope="module")

VOCABULARY = 261
"""Ids of the tokenizer; rows of the embedding behind them are padding, which no law has."""
TEXT = "the é 😀 of them, and a the of it all: 0123456789"
PROMPT = tuple(byte_level().encode(TEXT, add_special_tokens=False).ids)
NEAR = 1e-4


@dataclass(frozen=True)
class Served:
    """Where a random Llama is served, and what transformers says of a prompt."""

    address: str
    url: str
    model: Any

    def wanted(self, prompt: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return float64 [len - 1, V]: log-probabilities of what follows each token but the last."""
        import torch

        with torch.no_grad():
            logits = self.model(torch.tensor([prompt])).logits[0, :-1, :VOCABULARY].double()
        return np.asarray(torch.log_softmax(logits, dim=-1))

    def chosen(self, prompt: tuple[int, ...]) -> list[float]:
        """Return the log-probability of each token but the first."""
        return self.wanted(prompt)[np.arange(len(prompt) - 1), prompt[1:]].tolist()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("scores")
    model = write_model(folder / "model")
    target = start_target(folder, model=str(model), dtype="float32", max_tokens=4096, prefill_chunk=16)
    draft = start_draft(folder, drafter="lookup", model="")
    await target.ready()
    await draft.ready()
    file = folder / "http"
    http = HttpSettings(listen="127.0.0.1:0", address_file=file)
    orchestrator = start_orchestrator(folder, [target], [draft], http=http, model=str(model))
    await orchestrator.ready()
    reference = transformers.LlamaForCausalLM.from_pretrained(model).float().eval()
    yield Served(orchestrator.address, f"http://{file.read_text().strip()}", reference)
    for service in (orchestrator, draft, target):
        await service.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def client(served: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.address) as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def plain(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(served.url) as connected:
        yield connected


async def asked(plain: httpx2.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    answer = await plain.post("/v1/completions", json={"temperature": 0, "echo": True, "logprobs": 1, **body})
    assert answer.status_code == 200, answer.text
    choices: list[dict[str, Any]] = answer.json()["choices"]
    return choices


@pytest.mark.parametrize("law", [{"temperature": 0.0}, {"temperature": 0.7, "top_k": 3, "repetition_penalty": 1.3}])
async def test_they_are_those_of_transformers_whatever_the_law(
    client: AsyncClient, served: Served, law: dict[str, Any]
) -> None:
    for _ in range(2):  # the second time the prompt is cached
        done = await client.generate(PROMPT, prompt_logprobs=3, max_tokens=0, echo=True, **law)
        found, wanted = done.started.prompt_logprobs, served.wanted(PROMPT)
        assert found is not None
        assert found.chosen == pytest.approx(served.chosen(PROMPT), abs=NEAR)
        for row, logs in zip(found.top, wanted, strict=True):
            assert [value for _, value in row] == pytest.approx(sorted(logs, reverse=True)[:3], abs=NEAR)
        assert (done.text, done.ids, done.started.prompt_ids) == (TEXT, (), PROMPT)
        assert (done.finish.reason, done.usage.output_tokens) == (FinishReason.LENGTH, 0)


async def test_the_output_behind_them_is_that_of_any_request(client: AsyncClient, served: Served) -> None:
    alone = await client.generate(PROMPT, seed=3, temperature=0.8, max_tokens=24, gamma=0)
    for gamma in (0, 4):
        scored = await client.generate(
            PROMPT, seed=3, temperature=0.8, max_tokens=24, gamma=gamma, prompt_logprobs=0, n=2
        )
        assert (scored.ids, scored.text) == (alone.ids, alone.text)
        assert scored.started.prompt_logprobs is not None
        assert scored.started.prompt_logprobs.chosen == pytest.approx(served.chosen(PROMPT), abs=NEAR)
        assert scored.started.prompt_logprobs.top == ()
    again = await client.generate(PROMPT, temperature=0.0, max_tokens=1)
    assert again.usage.cached_tokens > 0, "what was scored is found by those who only read"


async def test_nothing_but_the_prompt(client: AsyncClient) -> None:
    echo = await client.generate("the é", max_tokens=0, echo=True)
    assert (echo.text, echo.usage.output_tokens, echo.finish.reason) == ("the é", 0, FinishReason.LENGTH)
    one = await client.generate([7], max_tokens=0, prompt_logprobs=2)
    assert one.started.prompt_logprobs is not None
    assert one.started.prompt_logprobs.chosen == ()
    for fields, named in (
        ({"max_tokens": 0}, "max_tokens: got 0, wanted a whole number from 1"),
        ({"prompt_logprobs": 129}, "prompt_logprobs: got 129"),
        ({"prompt_logprobs": 1, "resume": [1]}, "prompt_logprobs: got 1, wanted nothing beside resume"),
    ):
        with pytest.raises(InvalidField, match=named):
            await client.generate(PROMPT, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [0, 1])
async def test_lm_eval_asks_so(plain: httpx2.AsyncClient, served: Served, most: int) -> None:
    """Contexts with continuations, in ids: the sum over the continuation, and whether it is the greedy one."""
    prompts = [PROMPT[:20], PROMPT[3:40]]
    choices = await asked(plain, prompt=[list(prompt) for prompt in prompts], max_tokens=most, seed=1234)
    for choice, prompt in zip(choices, prompts, strict=True):
        logprobs, wanted = choice["logprobs"], served.wanted(prompt)
        assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
        values = logprobs["token_logprobs"][: len(prompt)]
        assert values[1:] == pytest.approx(served.chosen(prompt), abs=NEAR)
        assert len(logprobs["tokens"]) == len(logprobs["top_logprobs"]) == len(prompt) + most
        assert sum(values[12:]) == pytest.approx(sum(served.chosen(prompt)[11:]), abs=10 * NEAR)
        for place in range(1, len(prompt)):
            greedy = max(logprobs["top_logprobs"][place].values()) == logprobs["token_logprobs"][place]
            assert greedy == (int(wanted[place - 1].argmax()) == prompt[place])


async def test_a_text_its_places_and_the_answer_behind_it(plain: httpx2.AsyncClient) -> None:
    (whole,) = await asked(plain, prompt=TEXT, max_tokens=6, logprobs=2)
    bare = (await plain.post("/v1/completions", json={"prompt": TEXT, "max_tokens": 6, "temperature": 0})).json()
    assert whole["text"] == TEXT + bare["choices"][0]["text"]
    logprobs = whole["logprobs"]
    assert len(logprobs["tokens"]) == len(logprobs["text_offset"]) == len(PROMPT) + 6
    for token, place in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert "\ufffd" in token or whole["text"][place:].startswith(token)
    body = {"prompt": TEXT, "max_tokens": 6, "temperature": 0, "echo": True, "logprobs": 2, "stream": True}
    *chunks, done = events_in((await plain.post("/v1/completions", json=body)).text)
    assert done == "[DONE]"
    pieces = [chunk["choices"][0] for chunk in chunks]
    assert "".join(piece["text"] for piece in pieces) == whole["text"]
    for name, values in logprobs.items():
        assert [value for piece in pieces if piece["logprobs"] for value in piece["logprobs"][name]] == values


async def test_echo_alone_over_http(plain: httpx2.AsyncClient) -> None:
    answer = await plain.post("/v1/completions", json={"prompt": TEXT, "echo": True, "max_tokens": 0})
    assert answer.json()["choices"][0]["text"] == TEXT
    assert answer.json()["usage"]["completion_tokens"] == 0
    refused = await plain.post("/v1/completions", json={"prompt": TEXT, "max_tokens": 0, "logprobs": 1})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "max_tokens")
