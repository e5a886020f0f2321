"""Fitting a tiny Llama to the corpus: cross-entropy against exact answer distributions.

A *soft target* gives at every answer token the whole distribution over next tokens, so a position teaches all
its legal moves at once: 250 steps reach 96% legal play, where sampled moves reach 78%.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from mlx_lm.models.llama import Model, ModelArgs

from engine.inference import fastmath
from tasks.pocket import tokenizer
from tasks.pocket.corpus import Example, batches

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 96,
    "num_hidden_layers": 3,
    "intermediate_size": 192,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_act": "silu",
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "vocab_size": tokenizer.VOCABULARY,
    "bos_token_id": None,
    "eos_token_id": tokenizer.END_OF_TURN,
    "pad_token_id": 0,
    "torch_dtype": "float16",
}
"""`config.json`, as transformers and mlx-lm read it: 302k parameters."""

LEARNING_RATE, WARMUP, ROWS = 3e-3, 50, 20
"""The peak of the cosine schedule, the steps that lead up to it, and how many rows share one padded pass."""


@dataclass(frozen=True)
class Batch:
    """Rows of one padded pass. `answers` and `targets` are of the A answer tokens of all rows together."""

    tokens: mx.array
    """[B, L] int32, padded on the right."""
    answers: tuple[mx.array, mx.array]
    """Row and column of the token *before* each answer token: [A] int32 each."""
    targets: mx.array
    """[A, V] float32: the distribution of each answer token given those before it."""


@lru_cache(maxsize=65536)
def _prompt(text: tuple[tuple[str, str], ...]) -> list[int]:
    spelled = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in text)
    return tokenizer.encode(spelled + "<|im_start|>assistant\n")


@lru_cache(maxsize=65536)
def _answer(answer: str) -> tuple[int, ...]:
    return (*tokenizer.encode(answer), tokenizer.END_OF_TURN)


def soft_targets(answers: dict[str, float], chosen: str) -> list[dict[int, float]]:
    """The distribution of each token of `chosen`, given its tokens before it, under `answers`."""
    prefixes = [_answer(chosen)[:i] for i in range(len(_answer(chosen)))]
    targets = []
    for prefix in prefixes:
        following: dict[int, float] = {}
        for answer, probability in answers.items():
            spelled = _answer(answer)
            if spelled[: len(prefix)] == prefix:
                token = spelled[len(prefix)]
                following[token] = following.get(token, 0.0) + probability
        total = sum(following.values())
        targets.append({token: probability / total for token, probability in following.items()})
    return targets


def collate(examples: list[Example], rng: random.Random) -> list[Batch]:
    """Rows of similar length share a pass. The answer spelled out in a row is drawn as the novice would."""
    rows = []
    for example in examples:
        chosen = rng.choices(list(example.answers), list(example.answers.values()))[0]
        prompt = _prompt(tuple((message["role"], message["content"]) for message in example.messages))
        rows.append((prompt, _answer(chosen), soft_targets(example.answers, chosen)))
    rows.sort(key=lambda row: len(row[0]))
    return [_pad(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)]


def _pad(rows: list[tuple[list[int], tuple[int, ...], list[dict[int, float]]]]) -> Batch:
    tokens = np.zeros((len(rows), max(len(prompt) + len(answer) for prompt, answer, _ in rows)), np.int32)
    at_row, at_column, distributions = [], [], []
    for i, (prompt, answer, targets) in enumerate(rows):
        tokens[i, : len(prompt) + len(answer)] = [*prompt, *answer]
        at_row += [i] * len(answer)
        at_column += range(len(prompt) - 1, len(prompt) - 1 + len(answer))
        distributions += targets
    dense = np.zeros((len(distributions), tokenizer.VOCABULARY), np.float32)
    for i, distribution in enumerate(distributions):
        dense[i, list(distribution)] = list(distribution.values())
    return Batch(mx.array(tokens), (mx.array(at_row), mx.array(at_column)), mx.array(dense))


@mx.custom_function
def cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    """−Σ p log softmax(logits): [A, V] and [A, V] → [A]. The gradient is softmax − p, without going back through
    the logarithm."""
    return fastmath.logsumexp(logits) - mx.sum(targets * logits, axis=-1)


@cross_entropy.vjp
def _cross_entropy_vjp(primals, cotangent, output):  # pyright: ignore[reportUnusedFunction]
    logits, targets = primals
    return cotangent[..., None] * (fastmath.softmax(logits) - targets), mx.zeros_like(targets)


def initial_model(seed: int) -> Model:
    """Normal weights of variance 1/fan-in, smaller where a block writes into the residual stream (GPT-2)."""
    mx.random.seed(seed)
    model = Model(ModelArgs.from_dict(CONFIG))
    weights = []
    for name, weight in tree_flatten(model.parameters()):
        if weight.ndim == 2:
            deviation = 0.02 if "embed" in name else weight.shape[1] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                deviation *= (2 * CONFIG["num_hidden_layers"]) ** -0.5
            weight = mx.random.normal(weight.shape) * deviation
        weights.append((name, weight))
    model.update(tree_unflatten(weights))
    return model


def causal(length: int) -> mx.array:
    """[L, L], added to the scores. Not lower: probabilities near 1e-38 become denormal numbers in the products
    that follow, which take 30 times as long."""
    return mx.where(mx.tril(mx.ones((length, length), mx.bool_)), 0.0, -40.0)


def summed_loss(model: Model, batch: Batch) -> mx.array:
    """The cross-entropy of all answer tokens; only theirs are projected on the vocabulary."""
    hidden = model.model.embed_tokens(batch.tokens)
    mask = causal(batch.tokens.shape[1])
    for layer in model.model.layers:
        hidden = layer(hidden, mask, None)
    hidden = model.model.norm(hidden)[batch.answers]
    return cross_entropy(model.model.embed_tokens.as_linear(hidden), batch.targets).sum()


def train(steps: int, seed: int, report: Callable[[int, float], None]) -> Model:
    """`report(step, loss)` is called after every step; the loss is in nats an answer token."""
    model = initial_model(seed)
    fastmath.install(model)
    warmup = min(WARMUP, steps)
    schedule = optim.join_schedules(
        [
            optim.linear_schedule(0.0, LEARNING_RATE, warmup),
            optim.cosine_decay(LEARNING_RATE, max(1, steps - warmup), LEARNING_RATE * 0.02),
        ],
        [warmup],
    )
    optimiser = optim.AdamW(learning_rate=schedule, weight_decay=0.01, betas=[0.9, 0.98], bias_correction=True)

    loss_and_gradient = nn.value_and_grad(model, summed_loss)
    stream, draws = batches(seed), random.Random(seed + 1)
    for step in range(1, steps + 1):
        passes = collate(next(stream), draws)
        count = sum(batch.targets.shape[0] for batch in passes)
        loss, gradient = 0.0, None
        for batch in passes:
            part, slope = loss_and_gradient(model, batch)
            gradient = slope if gradient is None else tree_map(mx.add, gradient, slope)
            mx.eval(part, gradient)
            loss += part.item()
        gradient, _ = optim.clip_grad_norm(tree_map(lambda g: g / count, gradient), 1.0)
        optimiser.update(model, gradient)
        mx.eval(model.parameters(), optimiser.state)
        report(step, loss / count)
    return model


def save(model: Model, folder: Path) -> None:
    """Write the model as mlx-lm loads it. Half precision: the app computes in single on a CPU."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: weight.astype(mx.float16) for name, weight in sorted(tree_flatten(model.parameters()))}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n", encoding="utf-8")
    tokenizer.save(folder, context=int(CONFIG["max_position_embeddings"]))
