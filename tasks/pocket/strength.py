"""How strong a model of `tasks.pocket` is, without sampling: three games this small can be summed over exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from engine import Game
from engine.inference import models
from engine.matches import nash_conv
from tasks.pocket.corpus import KUHN, NIM, TICTACTOE, Answers
from tasks.pocket.training import answer_tokens, logits, system_tokens, user_tokens

Table = dict[Any, Answers]
"""Position → probability of each legal move. What is missing to one is the share of illegal answers."""


def load(folder: Path) -> Any:
    """The model as the app loads it."""
    return models.load(str(folder), context=512)[0].model


def positions(game: Game[Any]) -> list[Any]:
    """Every position that can be reached and in which somebody is to move."""
    seen: dict[Any, None] = {}
    pending = list(game.deals())
    while pending:
        state = pending.pop()
        if game.returns(state) is None and state not in seen:
            seen[state] = None
            pending += [game.play(state, move) for move in game.legal(state)]
    return list(seen)


def move_table(model: Any, game: Game[Any], states: Iterable[Any], system: str | None, rows: int = 256) -> Table:
    """The model's probability of every legal move, end of turn included, at temperature 1."""
    table: Table = {state: {} for state in states}
    asked = [(state, move) for state in table for move in game.legal(state)]
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        prompts = [system_tokens(system) + user_tokens(game.observe(state, game.seat(state))) for state, _ in part]
        answers = [answer_tokens(move) for _, move in part]
        width = max(len(prompt) + len(answer) for prompt, answer in zip(prompts, answers, strict=True))
        tokens = np.zeros((len(part), width), np.int32)
        at = []
        for i, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            tokens[i, : len(prompt) + len(answer)] = prompt + answer
            at += [(i, len(prompt) + j) for j in range(len(answer))]
        row, column = np.array(at).T
        following = logits(model, mx.array(tokens), (mx.array(row), mx.array(column - 1)))
        loss = nn.losses.cross_entropy(following, mx.array(tokens[row, column]))
        surprise = np.bincount(row, np.array(loss, np.float64))
        for (state, move), nats in zip(part, surprise, strict=True):
            table[state][move] = float(np.exp(-nats))
    return table


def legal_rate(table: Table) -> float:
    """The mean over positions of the share of legal answers."""
    return float(np.mean([sum(moves.values()) for moves in table.values()]))


def win_rate(game: Game[Any], table: Table) -> float:
    """Against a uniformly random legal player, over all deals and both seats. An illegal answer is no win."""

    @cache
    def chance(state: Any, seat: int) -> float:
        returns = game.returns(state)
        if returns is not None:
            return float(returns[seat] > 0)
        moves = game.legal(state)
        weights = table[state] if game.seat(state) == seat else dict.fromkeys(moves, 1.0 / len(moves))
        return sum(weights[move] * chance(game.play(state, move), seat) for move in moves)

    return float(np.mean([chance(deal, seat) for deal in game.deals() for seat in (0, 1)]))


def measure(folder: Path, report: Callable[[str], None]) -> None:
    """Report how the model in `folder` plays under the three tasks' own prompts."""
    model = load(folder)
    for game in (NIM, KUHN, TICTACTOE):
        table = move_table(model, game, positions(game), game.prompt)
        if game is KUHN:
            renormalised = {s: {m: p / sum(moves.values()) for m, p in moves.items()} for s, moves in table.items()}
            strength = f"NashConv {nash_conv(game, renormalised.__getitem__):.3f}"
        else:
            strength = f"wins {win_rate(game, table):.3f} against random"
        report(f"{game.prompt:13} {len(table)} positions  legal {legal_rate(table):.4f}  {strength}")
