"""Text to tokens and back, on the main thread but for `pieces`. No MLX here."""

from __future__ import annotations

import json
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

    @property
    def pieces(self) -> Sequence[bytes]:
        """What each token id adds to a text, in UTF-8; nothing for special tokens."""
        ...


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
        self._pieces: list[bytes] | None = None

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Messages in the chat template, up to where the assistant's answer begins."""
        key = tuple((message["role"], message["content"]) for message in messages)
        return list(self._prompts.get(key, lambda: self._render(messages)))

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(_clean(text), add_special_tokens=False)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text, without end-of-turn and other special tokens. Broken bytes become U+FFFD."""
        return self._texts.get(tuple(tokens), lambda: self._decode(tokens))

    @property
    def pieces(self) -> Sequence[bytes]:
        """What each token id adds to a text, in UTF-8; nothing for special tokens. Made when first asked for.

        A space that a decoder drops before the first word is kept.
        """
        if self._pieces is None:
            self._pieces = self._read_vocabulary()
        return self._pieces

    def _read_vocabulary(self) -> list[bytes]:
        spelled = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        added = self._tokenizer.added_tokens_decoder
        decoder = json.dumps(json.loads(self._tokenizer.backend_tokenizer.to_str()).get("decoder"))
        read = _byte_level if '"ByteLevel"' in decoder else _sentence_piece
        return [
            (b"" if added[id].special else added[id].content.encode()) if id in added else read(token or "")
            for id, token in enumerate(spelled)
        ]

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

    @property
    def pieces(self) -> Sequence[bytes]:
        return [*(bytes([byte]) for byte in range(256)), b"", b""]


def _byte_level(token: str) -> bytes:
    """A token of a byte-level vocabulary (GPT-2's), where each byte is written as a printable character."""
    return b"".join(bytes([BYTES[c]]) if c in BYTES else c.encode() for c in token)


def _sentence_piece(token: str) -> bytes:
    """A token of a vocabulary in which a space is ▁, and a byte without a token of its own <0xNN>."""
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return bytes([int(token[3:5], 16)])
    return token.replace("▁", " ").encode()


def _printable_bytes() -> dict[str, int]:
    """Character → byte: printable Latin-1 characters are themselves, all others count up from 256."""
    own = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + n): byte for n, byte in enumerate(others)}


BYTES = _printable_bytes()


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
