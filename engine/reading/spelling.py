"""The tokens of a run that is only read as text: its tokenizer alone, a file beside the model, and no MLX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.inference import hub
from engine.types import EngineError

Decode = Callable[[list[int]], str]


class SpellingError(EngineError):
    """A tokenizer that can't be had: of which model, and why."""


def decoder(source: str) -> Decode:
    """How a model spells tokens, special ones left out; `source` as in `model.source`. Asks no hub.

    Takes some 0.1 s, and seconds for a GGUF file. Raises `SpellingError`.
    """
    try:
        if Path(source).suffix == ".gguf":
            return _of_gguf(Path(source).expanduser())
        return _of_folder(source)
    except SpellingError:
        raise
    except Exception as error:  # of two libraries
        raise SpellingError(f"{source}: its tokenizer can't be read: {error}") from error


def _of_folder(source: str) -> Decode:
    from tokenizers import Tokenizer

    folder: Path | None = hub.POCKET
    if source != "pocket":
        folder = hub.folder(source) if hub.is_id(source) else Path(source).expanduser()
    if folder is None:
        raise SpellingError(f"{source}: the model is no longer in the local cache, and its tokenizer with it")
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise SpellingError(f"{source}: there is no {file}")
    tokenizer = Tokenizer.from_file(str(file))
    return lambda tokens: tokenizer.decode(tokens)


def _of_gguf(path: Path) -> Decode:
    from engine.inference import gguf, gguf_tokenizer

    tokenizer = gguf_tokenizer.tokenizer(gguf.read(path))
    return lambda tokens: str(tokenizer.decode(tokens, skip_special_tokens=True))
