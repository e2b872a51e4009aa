"""What a request's body may have, whichever endpoint it is for: types and names; ranges are the front's business."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator


class _First(FailFast):
    """Complains of the first wrong item alone; a hash lets it stand in a union."""

    def __hash__(self) -> int:
        return hash(self.fail_fast)


_FIRST = _First()
Ids = Annotated[list[Annotated[int, Field(json_schema_extra={"minimum": 0, "maximum": 2**32 - 2})]], _FIRST]
Texts = Annotated[list[str], _FIRST]
Drawn = Literal["auto", "match", "token", "block"]
Drafters = Literal["model", "lookup", "mixed", "synthetic"]


def _bounded(description: str, **bounds: float) -> Any:
    """Declare an optional field; `bounds` document what the front checks, which words it better."""
    return Field(None, description=description, json_schema_extra=dict(bounds))


@cache
def names_of(kind: type[BaseModel]) -> frozenset[str]:
    """Return the names that an object of a kind may have."""
    return frozenset(field.alias or name for name, field in kind.model_fields.items())


class Body(BaseModel):
    """An object in a request: names that are not known are refused, and so are values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nothing(cls, given: Any) -> Any:
        """Leave out unknown fields that say nothing: clients send what an API might have, and answers come back."""
        if not isinstance(given, dict) or given.keys() <= (known := names_of(cls)):
            return given
        return {name: value for name, value in given.items() if name in known or value not in (None, [])}


class StreamOptions(Body):
    """What a stream brings beside text."""

    include_usage: bool | None = Field(None, description="Send usage in a last chunk, which has no choices.")
    continuous_usage_stats: bool | None = Field(None, description="Send counts so far with every chunk.")


class Speculative(Body):
    """How drafts may be used for this request; what is left out is the server's choice."""

    enabled: bool | None = Field(None, description="False decodes plainly, as gamma 0 does.")
    gamma: int | None = _bounded("Fixes the candidates per block; 0 decodes plainly.", minimum=0, maximum=256)
    gamma_min: int | None = _bounded("Fewest candidates that are chosen.", minimum=0, maximum=256)
    gamma_max: int | None = _bounded("Most candidates that are chosen.", minimum=0, maximum=256)
    rule: Drawn | None = Field(None, description="Acceptance rule.")
    drafter: Drafters | None = Field(None, description="A kind of draft.")
    draft: str | None = Field(None, description="One draft service, by its model's name.")


class JsonSchema(Body):
    """A schema as `response_format` has it."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = Field(None, description="Output always keeps to the schema.")


class ResponseFormat(Body):
    """The form of the output."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StructuredOutputs(Body):
    """The form of the output: exactly one of these."""

    json_: str | dict[str, Any] | None = Field(None, alias="json", description="A JSON schema.")
    regex: str | None = Field(None, description="A regular expression for the whole output.")
    choice: Texts | None = Field(None, description="Texts, one of which is the output.")
    grammar: str | None = Field(None, description="A grammar in Lark's notation.")
    json_object: bool | None = Field(None, description="Any JSON object.")


class Generating(Body):
    """What both ways of asking for text have in common."""

    model: str | None = Field(None, description="A name that is served; without it, whatever is.")
    max_tokens: int | None = _bounded("Most output tokens.", minimum=1, maximum=2**32 - 1)
    temperature: float | None = _bounded("0 is greedy.", minimum=0, maximum=100)
    top_p: float | None = _bounded("Keeps the likeliest tokens up to this mass.", exclusiveMinimum=0, maximum=1)
    top_k: int | None = _bounded("Keeps that many likeliest tokens; 0 and -1 keep all.", minimum=-1)
    min_p: float | None = _bounded("Keeps what is as likely as this share of the likeliest.", minimum=0, maximum=1)
    repetition_penalty: float | None = _bounded("Over prompt and output.", minimum=0.01, maximum=100)
    presence_penalty: float | None = _bounded("Over the output.", minimum=-100, maximum=100)
    frequency_penalty: float | None = _bounded("Over the output.", minimum=-100, maximum=100)
    logit_bias: dict[str, float] | None = Field(None, description="Token ids, and what is added to their logits.")
    banned_token_ids: Ids | None = Field(None, description="Ids that never come.")
    stop: str | Texts | None = Field(None, description="Texts before which the output ends.")
    stop_token_ids: Ids | None = Field(None, description="Ids that end the output, beside the model's own.")
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = Field(None, description="Go on behind the model's own end.")
    min_tokens: int | None = _bounded("Output tokens before which nothing ends it.", minimum=0)
    seed: int | None = _bounded("Makes the text a function of seed, prompt and model.", minimum=0, maximum=2**64 - 1)
    n: int | None = _bounded("How many continuations.", minimum=1, maximum=128)
    best_of: int | None = Field(None, description="Taken where it equals n.")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    speculative: Speculative | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: Texts | None = None
    guided_grammar: str | None = None
    return_token_ids: bool | None = Field(None, description="Tell the ids of prompt and output.")
    return_token_sources: bool | None = Field(None, description="Tell who wrote each output token.")
    one_token_per_event: bool | None = Field(None, description="Stream token by token instead of block by block.")
    skip_special_tokens: bool | None = Field(None, description="Leave special tokens out of the text; the default.")
    cache_salt: str | None = Field(None, description="Whose prompts may share a prefix cache.")
    user: str | None = Field(None, description="Not looked at.")
    safety_identifier: str | None = Field(None, description="Not looked at.")


class TextPart(Body):
    """A piece of a message."""

    type: Literal["text"]
    text: str


class ChatTurn(Body):
    """One message of a conversation."""

    role: str
    content: str | Annotated[list[TextPart], _FIRST] | None = Field(description="Of an assistant's it may be null.")
    name: str | None = Field(None, description="Not looked at.")
    tool_call_id: str | None = Field(None, description="Not looked at.")


class ChatRequest(Generating):
    """Asks for the next message of a conversation."""

    messages: Annotated[list[ChatTurn], _FIRST] = Field(json_schema_extra={"minItems": 1})
    max_completion_tokens: int | None = _bounded("The newer name of max_tokens.", minimum=1, maximum=2**32 - 1)
    logprobs: bool | None = Field(None, description="Tell log-probabilities of the output.")
    top_logprobs: int | None = _bounded("And of that many likeliest tokens at each place.", minimum=0, maximum=128)


class CompletionRequest(Generating):
    """Asks for continuations of one text or several."""

    prompt: str | Texts | Ids | Annotated[list[Ids], _FIRST] = Field(
        description="A text, token ids, or a list of either."
    )
    max_tokens: int | None = _bounded("Most output tokens; 0 only with echo.", minimum=0, maximum=2**32 - 1)
    logprobs: int | None = _bounded(
        "Tell log-probabilities of the output, and of an echo, and of that many likeliest tokens.",
        minimum=0,
        maximum=128,
    )
    echo: bool | None = Field(None, description="Put the prompt in front of the output.")


class TokenizeRequest(Body):
    """Asks for the ids of a text or of a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[ChatTurn], _FIRST] | None = None
    return_token_strs: bool | None = Field(None, description="Tell the text of each id too.")


class DetokenizeRequest(Body):
    """Asks for the text of ids."""

    model: str | None = None
    tokens: Ids
    skip_special_tokens: bool | None = Field(None, description="Leave special tokens out; not the default.")
