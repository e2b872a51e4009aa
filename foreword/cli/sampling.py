"""Options that say how tokens are chosen, for the commands that write text."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from foreword.errors import InvalidField

_LAW, _DRAFTS = "Sampling", "Speculation"

MaxTokens = Annotated[int | None, typer.Option(help="Most output tokens.")]
Temperature = Annotated[float | None, typer.Option(help="0 takes the likeliest token.", rich_help_panel=_LAW)]
TopP = Annotated[float | None, typer.Option(help="Probability mass that is kept.", rich_help_panel=_LAW)]
TopK = Annotated[int | None, typer.Option(help="Likeliest tokens that are kept.", rich_help_panel=_LAW)]
MinP = Annotated[
    float | None, typer.Option(help="Least share of the likeliest token's probability.", rich_help_panel=_LAW)
]
RepetitionPenalty = Annotated[float | None, typer.Option(help="Divides logits of tokens seen.", rich_help_panel=_LAW)]
PresencePenalty = Annotated[
    float | None, typer.Option(help="Taken once from logits of tokens output.", rich_help_panel=_LAW)
]
FrequencyPenalty = Annotated[
    float | None, typer.Option(help="Taken for every time a token was output.", rich_help_panel=_LAW)
]
Bias = Annotated[
    list[str] | None,
    typer.Option("--logit-bias", help="ID=VALUE, added to a token's logit; may be repeated.", rich_help_panel=_LAW),
]
Banned = Annotated[
    list[int] | None, typer.Option("--ban-id", help="Token id that never comes; may be repeated.", rich_help_panel=_LAW)
]
Stop = Annotated[list[str] | None, typer.Option(help="Text before which the output ends; may be repeated.")]
StopIds = Annotated[list[int] | None, typer.Option("--stop-id", help="Token id that ends it; may be repeated.")]
IncludeStop = Annotated[bool | None, typer.Option("--include-stop", help="Leave the stop text in the output.")]
IgnoreEos = Annotated[bool | None, typer.Option("--ignore-eos", help="Go on after the model's end of text.")]
MinTokens = Annotated[int | None, typer.Option(help="Output tokens before which no stop id may come.")]
Seed = Annotated[int | None, typer.Option(help="Makes the text repeatable, under the rule match.")]
Gamma = Annotated[int | None, typer.Option(help="Candidates per block; 0 turns drafts off.", rich_help_panel=_DRAFTS)]
GammaMin = Annotated[int | None, typer.Option(help="Fewest that are chosen.", rich_help_panel=_DRAFTS)]
GammaMax = Annotated[int | None, typer.Option(help="Most that are chosen.", rich_help_panel=_DRAFTS)]
Rule = Annotated[str | None, typer.Option(help="Acceptance rule: match, token or block.", rich_help_panel=_DRAFTS)]
Drafter = Annotated[str | None, typer.Option(help="Kind of draft: model, lookup, …", rich_help_panel=_DRAFTS)]
Draft = Annotated[str | None, typer.Option(help="One draft service, by its model.", rich_help_panel=_DRAFTS)]
Model = Annotated[str | None, typer.Option(help="Model, where several are served.")]
Timeout = Annotated[float | None, typer.Option(help="Longest time of the whole call, in seconds over 0.")]
Plain = Annotated[bool, typer.Option("--plain", help="No colours for who wrote what.")]


def given(**fields: Any) -> Any:
    """Return the fields that were given, as keyword arguments of a client; `logit_bias` still as it was typed.

    Raises InvalidField for a bias that is not ID=VALUE.
    """
    present = {name: value for name, value in fields.items() if value is not None}
    if "logit_bias" in present:
        present["logit_bias"] = dict(_bias(text) for text in present["logit_bias"])
    return present


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise InvalidField("logit_bias", text, "ID=VALUE, as 198=-2.5") from None
