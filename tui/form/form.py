"""The form itself: what was typed, what is wrong, which rows are shown, and the configuration that comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.config import Config, read_value
from engine.steering.drafts import edited
from tui.form.fields import Field, TaskFacts, fields

OPEN = ("general", "task", "run", "train")
"""Groups that are unfolded at first; the others are a key away."""

CHANGED, WRONG = "*", "!"
"""Words of the filter: only what was changed, only what is wrong."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the form: a group's heading, or one of its fields."""

    group: str
    field: Field | None = None
    is_open: bool = True
    """Whether fields of a heading stand below it."""

    @property
    def id(self) -> str:
        return self.field.name if self.field else f"[{self.group}]"


@dataclass(slots=True)
class Group:
    """What a heading says of its fields."""

    fields: list[Field] = field(default_factory=list)
    is_open: bool = False

    @property
    def changed(self) -> int:
        return sum(f.is_changed for f in self.fields)

    @property
    def wrong(self) -> int:
        return sum(bool(f.problem) for f in self.fields)


class Form:
    """A configuration under edit. `set` and `reset` change it; everything else tells."""

    def __init__(self, config: Config, facts: TaskFacts | None = None) -> None:
        self.start = config
        self.facts = facts or TaskFacts()
        self.config: Config | None = config
        """What the fields say; None while something is wrong."""
        self.latest = config
        """The last one that the schema, at least, had nothing against."""
        self.rest: dict[str, str] = {}
        """What is wrong with keys that aren't fields."""
        self.groups: dict[str, Group] = {}
        self._fields: dict[str, Field] = {}
        self._folded: dict[str, bool] = {}
        self._fill()

    # What there is

    @property
    def fields(self) -> Iterable[Field]:
        return self._fields.values()

    def field(self, name: str) -> Field:
        return self._fields[name]

    @property
    def changed(self) -> int:
        return sum(f.is_changed for f in self.fields)

    @property
    def problems(self) -> dict[str, str]:
        """By key, in the order of the form, then those that are of no field."""
        return {f.name: f.problem for f in self.fields if f.problem} | self.rest

    def rows(self, wanted: str = "") -> list[Row]:
        """Headings and the fields of those that are unfolded; with a filter, only what passes it, all unfolded."""
        words = wanted.lower().split()
        found: list[Row] = []
        for name, group in self.groups.items():
            shown = [f for f in group.fields if _passes(f, words)] if words else group.fields
            if words and not shown:
                continue
            is_open = group.is_open or bool(words)
            found.append(Row(name, is_open=is_open))
            if is_open:
                found += [Row(name, f) for f in shown]
        return found

    # What is done

    def set(self, name: str, text: str) -> None:
        """Give a field another text; all that is wrong is then known."""
        if self._fields[name].text != text:
            self._fields[name].text = text
            self._check()

    def reset(self, name: str, *, to_default: bool = False) -> None:
        """Give a field the text it was opened with, or its default."""
        f = self._fields[name]
        self.set(name, f.default if to_default and not f.key.required else f.start)

    def fold(self, group: str, is_open: bool | None = None) -> None:
        """Fold a group, or unfold it; the other way round if not told."""
        found = self.groups[group]
        found.is_open = not found.is_open if is_open is None else is_open
        self._folded[group] = found.is_open

    def show(self, name: str) -> None:
        """Unfold the group of a field, if it is one."""
        if name in self._fields:
            self.fold(self._fields[name].group, True)

    def learn(self, facts: TaskFacts) -> None:
        """Take what the tasks tell of themselves; nothing that was typed is lost.

        Of one that can't be made what was known stays, but for why it can't.
        """
        self.facts = TaskFacts(facts.options or self.facts.options, facts.roles or self.facts.roles, facts.problem)
        self._fill()

    def _fill(self) -> None:
        typed = {f.name: f.text for f in self.fields if f.is_changed}
        started = {f.name: f for f in fields(self.start, self.facts)}
        # a task chosen in the form brings fields of its own, and what was taken out of the start's can be put back
        self._fields = {f.name: f for f in fields(self.latest, self.facts)}
        self._fields |= {name: f for name, f in started.items() if name not in self._fields}
        for f in self.fields:
            f.start = started[f.name].start if f.name in started else f.default
            f.text = typed.get(f.name, f.start)
        self.groups = {}
        for f in self.fields:
            self.groups.setdefault(f.group, Group()).fields.append(f)
        for name, group in self.groups.items():
            group.is_open = self._folded.get(name, name.partition(".")[0] in OPEN)
        self._check()

    def _check(self) -> None:
        """Every field's problem, worded as the command line words it, and what they all come to."""
        kinds = {f.name: f.key for f in self.fields}
        # what was taken back is taken back to the letter: a key that wasn't there isn't there again
        changes = {f.name: _change(f) for f in self.fields if f.is_changed}
        made, problems = edited(self.start, changes, kinds)
        for name, problem in self._wrong_options(changes).items():
            problems.setdefault(name, problem)
        for f in self.fields:
            f.problem = problems.pop(f.name, "")
        self.rest = problems
        self.config = None if self.problems else made
        self.latest = made or self.latest

    def _wrong_options(self, changes: dict[str, str | None]) -> dict[str, str]:
        """What the tasks' own schemas have against their options."""
        found: dict[str, str] = {}
        for part, taker in self.facts.options.items():
            place = f"tasks.{part}.options." if part else "task.options."
            started = self.start.parts.get(part)
            options = dict(started.options) if started else {}
            for name, text in changes.items():
                if name.startswith(place):
                    option = name.removeprefix(place)
                    options.pop(option, None)
                    if text is not None:
                        options[option] = read_value(self._fields[name].key, text)
            for option, problem in taker.problems(options).items():
                found[place + option] = problem.removeprefix(f"option {option!r} ")
        return found


def _change(f: Field) -> str | None:
    """What to do with its key: the default need not be said."""
    return None if f.text == f.default and not f.key.required else f.text


def _passes(f: Field, words: list[str]) -> bool:
    texts = f"{f.name} {f.key.description} {f.text}".lower()
    for word in words:
        if word == CHANGED:
            if not f.is_changed:
                return False
        elif word == WRONG:
            if not f.problem:
                return False
        elif word not in texts:
            return False
    return True
