"""The embedded model keeps what its card promises, and can be made again."""

from __future__ import annotations

import hashlib
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from engine.inference import blas

blas.load()

import mlx.core as mx  # noqa: E402  MLX must find the fast BLAS already loaded
import mlx_lm  # noqa: E402
import mlx_lm.models.llama as llama  # noqa: E402
from mlx_lm.models.activations import swiglu  # noqa: E402
from mlx_lm.models.base import scaled_dot_product_attention  # noqa: E402

from engine.inference.models import POCKET  # noqa: E402
from tasks.pocket import strength, training  # noqa: E402
from tasks.pocket.corpus import KUHN, LESSONS, NIM, STYLES, TICTACTOE, batches, completing  # noqa: E402

GAMES = (NIM, KUHN, TICTACTOE)


@pytest.fixture(scope="module")
def model():
    return strength.load(POCKET)


def some_positions(game, n=120):
    everything = sorted(strength.positions(game), key=str)
    return random.Random(0).sample(everything, min(n, len(everything)))


def rates(model, game, system, states):
    return strength.move_table(model, game, states, system)


def test_the_shipped_model_is_a_megabyte_at_most():
    assert sum(file.stat().st_size for file in POCKET.iterdir()) <= 1_000_000


def test_mlx_lm_loads_it_as_it_is_and_agrees_on_a_moves_probability(model, monkeypatch):
    table = rates(model, NIM, "Nim.", [(13, 0)])
    monkeypatch.setattr(llama, "swiglu", swiglu)
    monkeypatch.setattr(llama, "scaled_dot_product_attention", scaled_dot_product_attention)
    plain, tokenizer = mlx_lm.load(str(POCKET))
    assert tokenizer.eos_token_ids == {training.tokenizer.END_OF_TURN}
    messages = [{"role": "system", "content": "Nim."}, {"role": "user", "content": "13"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    answer = [*tokenizer.encode("[2]"), *tokenizer.eos_token_ids]
    logits = plain(mx.array([prompt + answer]))[0, len(prompt) - 1 : -1].astype(mx.float32)
    expected = sum((logits[i, token] - mx.logsumexp(logits[i])).item() for i, token in enumerate(answer))
    assert math.log(table[13, 0]["[2]"]) == pytest.approx(expected, abs=0.02)  # half precision against single


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.prompt)
def test_its_answers_are_legal_moves(model, game):
    assert strength.legal_rate(rates(model, game, game.prompt, some_positions(game))) >= 0.995


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.prompt)
@pytest.mark.parametrize("prompt", [None, "", "Do what you think is best, friend.", "Play well: no blunders! 🙂"])
def test_under_a_prompt_it_has_never_seen_it_still_answers_legally(model, game, prompt):
    assert strength.legal_rate(rates(model, game, prompt, some_positions(game, 40))) >= 0.97


def test_be_bold_and_be_careful_tilt_nim(model):
    plain, bold, careful = (rates(model, NIM, f"Nim.{style}", [(15, 0), (10, 0)]) for style in styles())
    for state in plain:
        assert bold[state]["[3]"] > plain[state]["[3]"] + 0.15
        assert careful[state]["[1]"] > plain[state]["[1]"] + 0.15


def test_be_bold_and_be_careful_tilt_poker(model):
    plain, bold, careful = (rates(model, KUHN, f"Kuhn poker.{style}", some_positions(KUHN)) for style in styles())
    for state in plain:
        chips_in = KUHN.legal(state)[1]
        assert careful[state][chips_in] + 0.15 < plain[state][chips_in] < bold[state][chips_in] - 0.15


def test_be_bold_takes_centre_and_corners_and_be_careful_blocks(model):
    states = ["012345678", "0X2345678", "01O34X678"]
    plain, bold, _ = (rates(model, TICTACTOE, f"Tic-tac-toe.{style}", states) for style in styles())
    for state in states:
        strong = [move for move in TICTACTOE.legal(state) if int(move[1]) % 2 == 0]
        assert sum(bold[state][m] for m in strong) > sum(plain[state][m] for m in strong) + 0.08
    threatened = ["XX2O45678", "X1O3X5678", "O1X34X67O"]
    plain, _, careful = (rates(model, TICTACTOE, f"Tic-tac-toe.{style}", threatened) for style in styles())
    blocks = {"XX2O45678": "[2]", "X1O3X5678": "[8]", "O1X34X67O": "[4]"}
    assert sum(careful[s][m] - plain[s][m] for s, m in blocks.items()) > 0.15


def styles() -> list[str]:
    return [f" Be {style}." if style else "" for style in STYLES]


def test_every_answer_distribution_covers_exactly_the_legal_moves():
    for lesson in LESSONS:
        rng = random.Random(1)
        for _ in range(300):
            state = lesson.position(rng)
            for style in STYLES:
                answers = lesson.novice(state, style)
                assert set(answers) == set(lesson.game.legal(state))
                assert sum(answers.values()) == pytest.approx(1.0)
                assert min(answers.values()) > 0.0
            for _, answers in lesson.questions(state, rng):
                assert sum(answers.values()) == pytest.approx(1.0)


def test_the_targets_of_a_written_answer_are_its_conditional_distributions():
    answers = {"[call]": 0.25, "[fold]": 0.5, "[check]": 0.25}
    targets = training.soft_targets(answers, "[check]")
    letter = {name: training.answer_tokens(name)[0] for name in "[cfahelkod]"}
    assert targets[0] == {letter["["]: 1.0}
    assert targets[1] == {letter["c"]: 0.5, letter["f"]: 0.5}
    assert targets[2] == {letter["a"]: 0.5, letter["h"]: 0.5}
    assert all(sum(target.values()) == pytest.approx(1.0) for target in targets)
    assert targets[-1] == {training.tokenizer.END_OF_TURN: 1.0}


def test_the_cells_a_question_names_are_those_that_win_by_the_rules():
    for state in some_positions(TICTACTOE, 500):
        for mark, wins in (("X", (1.0, -1.0)), ("O", (-1.0, 1.0))):
            by_rules = [c for c in range(9) if TICTACTOE.returns(state.replace(str(c), mark)) == wins]
            assert completing(state, mark) == by_rules


def test_the_corpus_is_written_as_the_chat_template_writes_it():
    _, tokenizer = mlx_lm.load(str(POCKET))
    rng = random.Random(0)
    for example in next(batches(3)):
        row = training.spell(example, rng)
        messages = [] if example.system is None else [{"role": "system", "content": example.system}]
        for question, answers in example.turns:
            messages.append({"role": "user", "content": question})
            prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
            assert row.tokens[: len(prompt)] == prompt
            first = row.targets[len(prompt)]
            assert set(first) == {tokenizer.encode("[")[0]}
            end = row.tokens.index(training.tokenizer.END_OF_TURN, len(prompt))
            written = tokenizer.decode(row.tokens[len(prompt) : end])
            assert written in answers
            messages.append({"role": "assistant", "content": written})


def test_seven_prompts_in_ten_are_the_tasks_own():
    corpus = batches(0)
    systems = Counter(example.system for _ in range(60) for example in next(corpus))
    assert sum(systems[game.prompt] for game in GAMES) / systems.total() >= 0.7


def test_the_same_seed_makes_the_same_bytes(tmp_path: Path):
    first, second = (made(tmp_path / name, seed=0) for name in "ab")
    assert first == second
    assert made(tmp_path / "c", seed=1) != first


def made(folder: Path, seed: int) -> str:
    training.save(training.train(3, seed, lambda step, loss: None), folder)
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
