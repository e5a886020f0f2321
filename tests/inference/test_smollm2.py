"""A real chat model from a GGUF file, SmolLM2-135M-Instruct: skipped, loudly, where it can't be had."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest
from scipy.special import log_softmax

from engine.config import LoRAConfig
from engine.inference import gguf, gguf_model, models
from engine.inference.adapters import Adapters
from engine.inference.batcher import Batcher, Finished, Request
from engine.inference.models import LanguageModel
from engine.inference.tokenizer import ChatTokenizer
from engine.types import Sampling, StopReason
from tests.inference.conftest import plain_maths
from tests.smollm2 import file_or_skip

END = 2
"""The id of `<|im_end|>`."""
QUESTIONS = {
    "What is the capital of France?": "Paris",
    "What is the opposite of hot? Answer in one word.": "cold",
    "What is 2 + 2?": "4",
}
ENCODINGS = {
    # Digits one by one, as the model's own tokenizer.json has it; the rest as transformers' GGUF reader encodes.
    "1234": [33, 34, 35, 36],
    "[7]": [75, 39, 77],
    "don't stop": [12420, 982, 2853],
    "héllo  wörld\n\n\tx": [88, 2756, 31394, 216, 267, 29989, 400, 1116, 197, 104],
    "The quick brown fox": [504, 2365, 6354, 16438],
    "日本語 text!!": [23274, 115, 40993, 179, 120, 248, 1694, 10095],
    "a = b+c; // 'x'": [81, 446, 278, 27, 83, 43, 13241, 637, 104, 23],
}


@pytest.fixture(scope="module")
def loaded() -> tuple[LanguageModel, ChatTokenizer]:
    return models.load(str(file_or_skip()), 512)


@pytest.fixture(scope="module")
def answers(loaded) -> list[tuple[list[int], Finished]]:
    """Prompts and what one batch makes of them: the likeliest answer to each question, then two that are drawn."""
    lm, tokenizer = loaded
    batcher = Batcher(lm, Adapters(lm, LoRAConfig(rank=2)))
    greedy, drawn = Sampling(temperature=0.0, max_tokens=16), Sampling(temperature=1.0, max_tokens=16)
    texts = [*QUESTIONS, "Tell me a joke.", "Hi"]
    prompts = [tokenizer.prompt([{"role": "user", "content": text}]) for text in texts]
    for id, prompt in enumerate(prompts):
        batcher.add(Request(id, prompt, greedy if id < len(QUESTIONS) else drawn, "base", key=id))
    finished = {}
    while len(batcher):
        finished |= {end.id: end for end in batcher.tick().finished}
    return [(prompt, finished[id]) for id, prompt in enumerate(prompts)]


@pytest.fixture(scope="module")
def teacher_forced(answers) -> list[np.ndarray]:
    """[T, V] float64 of each answer: mlx-lm's model, one row alone, without a cache and with MLX's own maths."""
    model, _ = gguf_model.load(gguf.read(file_or_skip()), dense=True)
    found = []
    for prompt, end in answers:
        with plain_maths():
            logits = np.array(model(mx.array([[*prompt, *end.tokens]])))[0].astype(np.float64)
        found.append(log_softmax(logits[len(prompt) - 1 : -1], axis=-1))
    return found


def test_it_answers_simple_questions_and_ends_its_turn(loaded, answers):
    for word, (_, end) in zip(QUESTIONS.values(), answers, strict=False):
        assert word.lower() in loaded[1].decode(end.tokens).lower()
        assert (end.stop_reason, end.tokens[-1]) == (StopReason.STOP, END)


def test_its_greedy_answers_are_the_likeliest_tokens_of_a_teacher_forced_pass(answers, teacher_forced):
    for (_, end), expected in list(zip(answers, teacher_forced, strict=True))[: len(QUESTIONS)]:
        assert end.tokens == expected.argmax(-1).tolist()


def test_logprobs_in_a_ragged_batch_are_those_of_a_teacher_forced_pass(answers, teacher_forced):
    for (_, end), expected in list(zip(answers, teacher_forced, strict=True))[len(QUESTIONS) :]:
        np.testing.assert_allclose(end.logprobs, expected[np.arange(len(end.tokens)), end.tokens], atol=1e-4)


def test_the_chat_template_is_the_models_own(loaded):
    prompt = loaded[1].prompt([{"role": "user", "content": "Hi"}])
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    assert loaded[1]._tokenizer.decode(prompt) == (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert prompt[:3] == [1, 9690, 198]
    assert loaded[0].eos_tokens == {END}
    assert loaded[1].end_of_turn == END


@pytest.mark.parametrize(("text", "tokens"), ENCODINGS.items())
def test_its_tokenizer_is_the_models_own(loaded, text, tokens):
    tokenizer = loaded[1]
    assert tokenizer.encode(text) == tokens
    assert tokenizer.decode(tokens) == text


def test_what_a_user_writes_cant_end_the_turn(loaded):
    prompt = loaded[1].prompt([{"role": "user", "content": "<|im_end|>"}])
    assert prompt.count(END) == 2  # of the system's turn and of the user's
