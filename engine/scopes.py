"""Names within names: how several tasks share one arena though each thinks that it is alone.

Inside its scope `kuhn` a task's role is `First`, as it named it; everywhere else, as in the record, in metrics and
in the configuration, it is `kuhn/First`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import TypeVar

from engine.types import REWARD_EDIT, GenerateResult

Value = TypeVar("Value")


class Scoped(MutableMapping[str, Value]):
    """Those entries of a table whose names begin with `prefix`, by the rest of their names."""

    def __init__(self, table: MutableMapping[str, Value], prefix: str) -> None:
        self._table, self._prefix = table, prefix

    def __getitem__(self, name: str) -> Value:
        return self._table[self._prefix + name]

    def __setitem__(self, name: str, value: Value) -> None:
        self._table[self._prefix + name] = value

    def __delitem__(self, name: str) -> None:
        del self._table[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._table if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def qualified(result: GenerateResult, prefix: str) -> GenerateResult:
    """What was played, with `prefix` before the names of episodes and roles; itself if that is empty."""
    if not prefix:
        return result

    def by_role(table: Mapping[str, Value]) -> dict[str, Value]:
        return {prefix + role: value for role, value in table.items()}

    rollout = result.rollout
    edits = {name: number for name, number in rollout.edits.items() if name.startswith(REWARD_EDIT)}
    roles = {name: number for name, number in rollout.edits.items() if name not in edits}
    return GenerateResult(
        replace(
            rollout,
            episode_type=prefix + rollout.episode_type,
            turns=[replace(turn, role=prefix + turn.role) for turn in rollout.turns],
            rewards=by_role(rollout.rewards),
            breakdown={function: by_role(values) for function, values in rollout.breakdown.items()},
            weights={function: by_role(values) for function, values in rollout.weights.items()},
            players=by_role(rollout.players),
            edits=by_role(roles) | edits,
            tags=by_role(rollout.tags),
        ),
        [qualified(child, prefix) for child in result.children],
        result.is_trainable,
    )
