"""Tokens as text without their model: as the model's own tokenizer spells them, or told why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.inference import models
from engine.reading.spelling import SpellingError, decoder
from tests.tiny_gguf import tiny_gguf


def test_tokens_are_spelt_as_the_loaded_model_spells_them() -> None:
    _, tokenizer = models.load("pocket", 256)
    tokens = [
        *tokenizer.prompt([{"role": "user", "content": "12 sticks"}]),
        *tokenizer.encode("I take [2], naïve 🎲"),
        tokenizer.end_of_turn,
    ]
    spell = decoder("pocket")
    assert spell(tokens) == tokenizer.decode(tokens)
    assert [spell([token]) for token in tokens] == [tokenizer.decode([token]) for token in tokens]


def test_a_gguf_file_holds_its_tokenizer_itself(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "model.gguf", kind="Q4_0")
    _, tokenizer = models.load(str(file), 256)
    tokens = tokenizer.encode("take two")
    assert decoder(str(file))(tokens) == tokenizer.decode(tokens)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{}/none", "there is no .*none/tokenizer.json"),
        ("somebody/no-such-model", "no longer in the local cache"),
        ("{}/broken", "can't be read"),
        ("{}/none.gguf", "can't be read"),
    ],
)
def test_a_tokenizer_that_cannot_be_had_is_told_with_its_model(tmp_path: Path, source: str, why: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tokenizer.json").write_text("{")
    with pytest.raises(SpellingError, match=why):
        decoder(source.format(tmp_path))
