"""What a backward pass keeps in memory: gradients of a block at a time, and of each block all or its input only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import mlx.core as mx

from engine.inference.adapters import Adapters
from engine.inference.models import LanguageModel


@contextmanager
def in_blocks(lm: LanguageModel, adapters: Adapters, *, recompute: bool = False) -> Iterator[None]:
    """Backward passes of what is computed within end with a block before they begin with the one before it.

    MLX's own order leaves the gradients of parameters for last, and every block's activations wait for them. With
    `recompute` only the input of each block is kept, and the block computed once more on the way back: a third
    more computation (T. Chen et al., arXiv 1604.06174). Modules and parameters keep their names.
    """
    layers = cast(Any, lm.model.model).layers
    blocks = list(layers)
    names = _by_block(adapters.used or (), len(blocks))
    layers[:] = [_Block(block, own, adapters, recompute) for block, own in zip(blocks, names, strict=True)]
    try:
        yield
    finally:
        layers[:] = blocks


class _Block:
    """A block in whose place it stands."""

    def __init__(self, block: Any, own: Sequence[str], adapters: Adapters, recompute: bool) -> None:
        self._block = block
        self._own = own
        self._adapters = adapters
        self._recompute = recompute

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    def __call__(self, x: mx.array, *args: Any, **kwargs: Any) -> Any:
        used = self._adapters.used or {}
        x, *arrays = cast(Sequence[mx.array], _in_order(x, *(used[name] for name in self._own)))
        own = dict(zip(self._own, arrays, strict=True))
        given = {**{str(number): value for number, value in enumerate(args)}, **kwargs}
        # `mx.checkpoint` differentiates by what it is given, and not by what the function finds elsewhere.
        differentiable = {key: value for key, value in given.items() if _is_differentiable(value)}

        def block(x: mx.array, own: dict[str, mx.array], differentiable: dict[str, mx.array]) -> Any:
            now = given | differentiable
            with self._adapters.using(own):
                return self._block(
                    x, *(now[str(number)] for number in range(len(args))), **{key: now[key] for key in kwargs}
                )

        return (mx.checkpoint(block) if self._recompute else block)(x, own, differentiable)


def _by_block(names: Iterable[str], count: int) -> list[list[str]]:
    """Parameters such as "model.layers.3.mlp.up_proj.lora_a", by their block's number."""
    found: list[list[str]] = [[] for _ in range(count)]
    for name in names:
        found[int(name.partition("layers.")[2].partition(".")[0])].append(name)
    return found


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, mx.array) and mx.issubdtype(value.dtype, mx.floating)


@mx.custom_function
def _in_order(*arrays: mx.array) -> tuple[mx.array, ...]:
    """The arrays as they are; the gradient by the first is there once those by the others are."""
    return arrays


@_in_order.vjp
def _in_order_vjp(primals, cotangents, outputs) -> list[mx.array]:
    first, *others = cotangents if isinstance(cotangents, (tuple, list)) else [cotangents]
    return [*cast(list[mx.array], mx.depends([first], others)), *others] if others else [first]
