"""Prompt files: what comes with the package, and what is refused."""

import json
from collections import Counter
from pathlib import Path

import pytest

from foreword.errors import InvalidField
from foreword.protocol.generation import Message
from loadtest.prompts import Prompt, dev_prompts, read_prompts

ROW = {"id": "a", "category": "qa", "messages": [{"role": "user", "content": "Why?"}], "max_tokens": 8}


def write(path: Path, *rows: object) -> Path:
    file = path / "prompts.jsonl"
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return file


def test_the_package_has_ten_prompts_of_each_kind():
    prompts = dev_prompts()
    assert len({prompt.id for prompt in prompts}) == 100
    assert set(Counter(prompt.category for prompt in prompts).values()) == {10}
    assert all(prompt.messages[-1].role == "user" for prompt in prompts)


def test_a_file_is_read_in_order_and_empty_lines_are_passed_over(tmp_path):
    file = write(tmp_path, ROW, "", ROW | {"id": "b", "max_tokens": 1}, "")
    assert read_prompts(file) == (
        Prompt(id="a", category="qa", messages=(Message("user", "Why?"),), max_tokens=8),
        Prompt(id="b", category="qa", messages=(Message("user", "Why?"),), max_tokens=1),
    )


def test_a_line_ends_at_a_newline_and_nowhere_else(tmp_path):
    text = "one\u2028two\x85three"
    row = json.dumps(ROW | {"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    assert read_prompts(write(tmp_path, row))[0].messages[0].content == text


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", r":2: got '\{', wanted a JSON object"),
        ([1], r":2: got \[1\], wanted an object with the fields category, id, max_tokens, messages"),
        (ROW | {"extra": 1}, r":2: got \['category', 'extra', .* wanted an object with the fields"),
        ({"id": "b"}, r":2: got \['id'\], wanted an object with the fields"),
        (ROW | {"id": ""}, r":2 id: got '', wanted a text that is not empty"),
        (ROW | {"category": 3}, r":2 category: got 3, wanted a text"),
        (ROW | {"max_tokens": 0}, r":2 max_tokens: got 0, wanted a whole number from 1"),
        (ROW | {"max_tokens": True}, r":2 max_tokens: got True, wanted a whole number"),
        (ROW | {"messages": []}, r":2 messages: got \[\], wanted a list of at least one message"),
        (ROW | {"messages": ["hi"]}, r":2 messages\[0\]: got 'hi', wanted an object with the fields content, role"),
        (ROW | {"messages": [{"role": "user", "content": ""}]}, r":2 messages\[0\] content: got ''"),
        (ROW, r":2 id: got 'a', wanted an id that no earlier line has"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, row, message):
    with pytest.raises(InvalidField, match=message):
        read_prompts(write(tmp_path, ROW, row))


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InvalidField, match=r"prompts: got '.*absent', wanted a file that can be read \(No such"):
        read_prompts(tmp_path / "absent")
    with pytest.raises(InvalidField, match="got 'no prompt', wanted at least one line"):
        read_prompts(write(tmp_path, ""))
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff")
    with pytest.raises(InvalidField, match=r"wanted a file in UTF-8 \(byte 0xff at 0\)"):
        read_prompts(binary)
