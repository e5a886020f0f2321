"""Text to tokens and back, on the main thread. No MLX here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from engine.types import Message

CACHED_PROMPTS = 16_384
CACHED_TEXTS = 16_384

Value = TypeVar("Value")


class Tokenizer(Protocol):
    """What a client knows of a tokenizer."""

    @property
    def eos_tokens(self) -> frozenset[int]:
        """Every token that ends a turn."""
        ...

    @property
    def end_of_turn(self) -> int:
        """The one that ends the assistant's turns in the chat template."""
        ...

    def prompt(self, messages: Sequence[Message]) -> list[int]: ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...


class ChatTokenizer:
    """A Hugging Face tokenizer with its chat template.

    Games ask about the same positions again and again, and a template costs some 0.2 ms: what was
    rendered or decoded lately is remembered.
    """

    def __init__(self, tokenizer: Any, eos_tokens: Iterable[int]) -> None:
        """`tokenizer` is mlx-lm's wrapper or a `PreTrainedTokenizer`.

        Raises:
            ValueError: if it has no chat template.
        """
        template = getattr(tokenizer, "has_chat_template", None)
        if template is False or (template is None and tokenizer.chat_template is None):
            raise ValueError("the tokenizer has no chat template (chat_template): choose an instruct or chat model")
        self._tokenizer = tokenizer
        self.eos_tokens = frozenset(eos_tokens)
        own = tokenizer.eos_token_id
        self._specials = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
        self.end_of_turn: int = own if own in self.eos_tokens else min(self.eos_tokens)
        self._prompts: Remembered[list[int]] = Remembered(CACHED_PROMPTS)
        self._texts: Remembered[str] = Remembered(CACHED_TEXTS)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Messages in the chat template, up to where the assistant's answer begins."""
        key = tuple((message["role"], message["content"]) for message in messages)
        return list(self._prompts.get(key, lambda: self._render(messages)))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(_clean(text), add_special_tokens=False)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text, without end-of-turn and other special tokens. Broken bytes become U+FFFD."""
        return self._texts.get(tuple(tokens), lambda: self._decode(tokens))

    def _decode(self, tokens: Sequence[int]) -> str:
        kept = [token for token in tokens if token not in self.eos_tokens]
        return self._tokenizer.decode(kept, skip_special_tokens=True)

    def _render(self, messages: Sequence[Message]) -> list[int]:
        harmless = [{"role": m["role"], "content": self._without_markup(m["content"])} for m in messages]
        text = self._tokenizer.apply_chat_template(harmless, add_generation_prompt=True, tokenize=False)
        return self.encode(text)

    def _without_markup(self, content: str) -> str:
        """Text that spells a special token must not become one: an end of turn could speak for others."""
        for special in self._specials:
            content = content.replace(special, f"{special[0]} {special[1:]}")
        return content


class ByteTokenizer:
    """One token a byte and ChatML turns: enough for tests and scripted players, with no files."""

    START, END = 256, 257

    def __init__(self) -> None:
        self.eos_tokens = frozenset({self.END})
        self.end_of_turn = self.END

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        tokens: list[int] = []
        for message in messages:
            tokens += [self.START, *self.encode(f"{message['role']}\n{message['content']}"), self.END]
        return [*tokens, self.START, *self.encode("assistant\n")]

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token for token in tokens if token < 256).decode("utf-8", "replace")


def _clean(text: str) -> str:
    """Lone surrogates, which no tokenizer takes, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


class Remembered(Generic[Value]):
    """What a function gave for its latest `limit` keys."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[Hashable, Value] = {}

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key in self._values:
            value = self._values.pop(key)  # and back in at the young end
        else:
            value = make()
            if len(self._values) >= self._limit:
                del self._values[next(iter(self._values))]
        self._values[key] = value
        return value
