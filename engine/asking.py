"""What a model is asked: the messages as it gets them, how to sample, and the key of its random numbers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from engine.types import Message, Role, Sampling, settled


def as_asked(role: Role, tag: str | None, prompt: str | list[Message]) -> list[Message]:
    """What a role is asked, under its system prompt; its skill tag stands before the first thing a user says."""
    messages = as_messages(prompt)
    if tag is not None:
        first = next((i for i, message in enumerate(messages) if message["role"] == "user"), len(messages))
        said = [tag, *(message["content"] for message in messages[first : first + 1])]
        messages = [*messages[:first], {"role": "user", "content": " ".join(said)}, *messages[first + 1 :]]
    return [{"role": "system", "content": role.system_prompt}, *messages] if role.system_prompt else messages


def as_messages(prompt: str | list[Message]) -> list[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt


def changed(sampling: Sampling, settings: dict[str, Any]) -> Sampling:
    """`ValueError` for choices without a text: they would allow nothing, and leaving them out allows anything."""
    if "choices" in settings:
        choices = settings["choices"]
        if isinstance(choices, str) or not choices:
            raise ValueError(f"choices wants at least one text in a list, not {choices!r}")
        settings = {**settings, "choices": tuple(choices)}
    return replace(sampling, **settled(settings))


def request_key(seed: int, *path: str) -> int:
    """A 64-bit random key of a request's place in the run: a neighbour in the batch can't change it."""
    digest = hashlib.blake2b("\0".join([str(seed), *path]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
