"""What of an argument is checked without a judge: that it says something, and that what it quotes was said."""

from __future__ import annotations

import re
from collections.abc import Iterable

QUOTATION = re.compile(r'"([^"]+)"|“([^”]+)”')
FEWEST = 3
"""Words in a row that make a quotation; fewer in quotation marks are a term, or chance."""


def bare(text: str) -> str:
    """The letters and digits of a text, by which it is told from another."""
    return "".join(filter(str.isalnum, text.lower()))


def quoting(speech: str, source: str, others: Iterable[str] = ()) -> float:
    """1 for quoting the source, −1 for a quotation that is neither in it nor in the others, else 0.

    Checked by comparing words, as in Khan et al. (arXiv 2402.06782), so that no judge has to be believed.
    """
    quotations = [_words(one or other) for one, other in QUOTATION.findall(speech)]
    quotations = [words for words in quotations if len(words) >= FEWEST]
    if not all(any(_within(words, text) for text in (source, *others)) for words in quotations):
        return -1.0
    return float(any(_within(words, source) for words in quotations))


def _within(words: list[str], text: str) -> bool:
    return f" {' '.join(words)} " in f" {' '.join(_words(text))} "


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
