"""What to look for in a run's transcripts, as a person writes it.

    leave "a multiple of four" take* -forfeit role:First step:10-20 reward>0.5 illegal

Words have to be said, all of them, in what a role replied or was last asked; `"…"` holds some together, `word*` is
any word that begins so, `-word` must not be there. The rest are filters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

TOKEN = re.compile(r'(-?)"([^"]*)"?(\*?)|(\S+)')
FIELD = re.compile(r'(role|player|type|step):(?:"([^"]*)"?|(\S*))', re.IGNORECASE)
REWARD = re.compile(r"reward(<=|>=|<|>|=)(\S*)", re.IGNORECASE)
WORD = re.compile(r"\w+")
STEPS = re.compile(r"(\d+)(?:(-)(\d*))?")
Filter = tuple[str, tuple[object, ...]]
"""An SQL condition on a turn, and its values."""

FLAGS = {"illegal": ("illegal", 1), "eval": ("evaluation", 1), "training": ("evaluation", 0)}


class QueryError(ValueError):
    """A filter that says nothing: names it, and what would be right."""


@dataclass(frozen=True, slots=True)
class Query:
    """Read by `parse`."""

    words: tuple[str, ...] = ()
    """What has to be said, as FTS5 takes it."""
    without: tuple[str, ...] = ()
    """What must not."""
    filters: tuple[Filter, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.words and not self.filters

    def is_said_in(self, text: str) -> bool:
        """Whether a text that is in no index has all the words and none of the others, accents and case apart."""
        spoken = " ".join(WORD.findall(_folded(text)))

        def has(term: str) -> bool:
            prefix = term.endswith("*")
            said = " ".join(WORD.findall(_folded(term)))
            return re.search(rf"\b{re.escape(said)}" + ("" if prefix else r"\b"), spoken) is not None

        return bool(self.words) and all(map(has, self.words)) and not any(map(has, self.without))

    def pattern(self) -> re.Pattern[str] | None:
        """What finds the words in a text, but for accents that differ; None where there are none."""
        ends = [r"\w*" if word.endswith("*") else r"\b" for word in self.words]
        said = [r"\W+".join(map(re.escape, WORD.findall(word))) for word in self.words]
        found = "|".join(map("".join, zip(said, ends, strict=True)))
        return re.compile(rf"\b(?:{found})", re.IGNORECASE) if found else None

    def conditions(self) -> tuple[str, list[object]]:
        """A WHERE clause over the index's tables, and its values."""
        clauses = [clause for clause, _ in self.filters]
        values = [value for _, asked in self.filters for value in asked]
        if self.words:
            matched = f"({' AND '.join(self.words)})" + "".join(f" NOT {word}" for word in self.without)
            clauses, values = ["texts MATCH ?", *clauses], [matched, *values]
        elif self.without:
            clauses.append("turns.id NOT IN (SELECT rowid FROM texts WHERE texts MATCH ?)")
            values.append(" OR ".join(self.without))
        return " AND ".join(clauses), values


def _folded(text: str) -> str:
    whole = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in whole if not unicodedata.combining(character))


def parse(text: str) -> Query:
    """Reads a query. Raises `QueryError` for a filter without a sense; there is no other way to go wrong."""
    words: list[str] = []
    without: list[str] = []
    filters: list[Filter] = []
    at = 0
    text = text.replace("\0", " ")
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if found := FIELD.match(text, at):
            filters += _field(found[1].lower(), found[2] if found[2] is not None else found[3])
        elif found := REWARD.match(text, at):
            filters.append(_reward(found[1], found[2]))
        else:
            found = TOKEN.match(text, at)
            assert found is not None  # something that isn't a space is there
            _word(found, words, without, filters)
        at = found.end()
    return Query(tuple(words), tuple(without), tuple(filters))


def _word(found: re.Match[str], words: list[str], without: list[str], filters: list[Filter]) -> None:
    bare = found[4]
    if bare is None:
        negated, said, prefix = bool(found[1]), found[2], bool(found[3])
    elif bare.lower() in FLAGS:
        column, value = FLAGS[bare.lower()]
        filters.append((f"turns.{column} = ?", (value,)))
        return
    else:
        negated = bare.startswith("-") and len(bare) > 1
        said = bare[1:] if negated else bare
        prefix = said.endswith("*")
        said = said.rstrip("*")
    # FTS5 reads punctuation as nothing, and a phrase of nothing as an error or as no match at all
    if not any(character.isalnum() for character in said):
        return
    term = '"' + said.replace('"', '""') + '"' + ("*" if prefix else "")
    (without if negated else words).append(term)


def _field(name: str, value: str) -> list[Filter]:
    if not value:
        raise QueryError(f"{name}: needs a value, such as {'step:10-20' if name == 'step' else f'{name}:First'}")
    if name != "step":
        # a role of one of several tasks is called `nim/First`: its own name is enough
        clause = f"(turns.{name} = ? COLLATE NOCASE OR substr(turns.{name}, ?) = ? COLLATE NOCASE)"
        return [(clause, (value, -len(value) - 1, f"/{value}"))]
    steps = STEPS.fullmatch(value)
    if steps is None:
        raise QueryError(f"step:{value} is no step: write step:12, step:10-20 or step:10-")
    first = int(steps[1])
    if steps[2] is None:
        return [("turns.step = ?", (first,))]
    upper: list[Filter] = [("turns.step <= ?", (int(steps[3]),))] if steps[3] else []
    return [("turns.step >= ?", (first,)), *upper]


def _reward(sign: str, value: str) -> Filter:
    try:
        return f"turns.reward {sign} ?", (float(value.replace("\N{MINUS SIGN}", "-")),)
    except ValueError:
        raise QueryError(f"reward{sign}{value} compares with no number: write reward>0.5 or reward<=-1") from None
