"""The form itself: what was typed, what is wrong, which rows are shown, and the configuration that comes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.config import Config, read_value
from engine.options import Options
from engine.steering import tables
from engine.steering.drafts import edited
from engine.steering.tables import Table
from tui.form.fields import SECTIONS, Field, TaskFacts, fields

OPEN = ("general", "task", "run", "train")
"""Groups that are unfolded at first; the others are a key away."""

CHANGED, WRONG = "*", "!"
"""Words of the filter: only what was changed, only what is wrong."""

MORE = "+"
"""The group of the last row, which asks for another table."""


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
    is_new: bool = False
    """Whether it is a table that was put in."""
    is_out: bool = False
    """Whether it is one that was taken out, and can be put back."""

    @property
    def changed(self) -> int:
        return sum(f.is_changed for f in self.fields)

    @property
    def wrong(self) -> int:
        return sum(bool(f.problem) for f in self.fields)


class Form:
    """A configuration under edit. `set` and `reset` change its keys, `put`, `take_out` and `mix` its tables."""

    def __init__(self, config: Config, facts: TaskFacts | None = None) -> None:
        self.opened = config
        self.start = config
        """What the fields' changes are told from: what was opened, with the tables that there are now."""
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
        self._out: dict[str, tuple[Table, dict[str, str]]] = {}
        """Tables that were taken out, as they were opened, and what had been typed in them."""
        self._fill()

    # What there is

    @property
    def fields(self) -> Iterable[Field]:
        return self._fields.values()

    def field(self, name: str) -> Field:
        return self._fields[name]

    @property
    def changed(self) -> int:
        """How many things: keys that have other values, tables put in, tables taken out."""
        return sum(f.is_changed for f in self.fields) + len(self.put_in) + len(self.taken_out)

    @property
    def put_in(self) -> set[str]:
        """Tables that weren't there, by place."""
        return tables.tables(self.start).keys() - tables.tables(self.opened).keys()

    @property
    def taken_out(self) -> set[str]:
        """Tables that aren't there any more, by place."""
        return tables.tables(self.opened).keys() - tables.tables(self.start).keys()

    @property
    def problems(self) -> dict[str, str]:
        """By key, in the order of the form, then those that are of no field."""
        return {f.name: f.problem for f in self.fields if f.problem} | self.rest

    def rows(self, wanted: str = "") -> list[Row]:
        """Headings and the fields of those that are unfolded; with a filter, only what passes it, all unfolded."""
        words = wanted.lower().split()
        found: list[Row] = []
        for name, group in self.groups.items():
            is_other = group.is_new or group.is_out
            shown = [f for f in group.fields if _passes(f, words, group.is_new)] if words else group.fields
            if words and not shown and not (is_other and words == [CHANGED]):
                continue
            is_open = group.is_open or bool(words)
            found.append(Row(name, is_open=is_open))
            if is_open:
                found += [Row(name, f) for f in shown]
        return found if words else [*found, Row(MORE)]

    # What is done

    def set(self, name: str, text: str) -> None:
        """Give a field another text; all that is wrong is then known."""
        if self._fields[name].text != text:
            self._fields[name].text = text
            self._check()

    def choose(self, name: str, step: int) -> None:
        """Give a field the next of its choices, or with -1 the one before."""
        f = self._fields[name]
        here = f.choices.index(f.text) if f.text in f.choices else -1
        self.set(name, f.choices[(here + step) % len(f.choices)])

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

    def put(self, place: str, table: Table) -> None:
        """A table more, such as `"rewards.length"`, unfolded; or one that was taken out, as it was."""
        table, typed = self._out.pop(place, (table, {}))
        self.start = tables.put(self.start, place, table)
        self.latest = tables.put(self.latest, place, table)
        self._folded[place] = True
        self._fill(typed)

    def take_out(self, place: str) -> None:
        """A table less. One that was there when the form was opened stays in sight, to be put back."""
        if place in tables.tables(self.opened):
            typed = {f.name: f.text for f in self.fields if f.group == place and f.is_changed}
            self._out[place] = (tables.tables(self.start)[place], typed)
        self.start = tables.take_out(self.start, place)
        self.latest = tables.take_out(self.latest, place)
        self._fill()

    def put_back(self, place: str) -> None:
        """A table that was taken out."""
        self.put(place, self._out[place][0])

    def can_be_out(self, place: str) -> bool:
        """Whether it is a table that can be taken out: not a role that the task has, whatever is said of it."""
        section, _, name = place.partition(".")
        return place in tables.tables(self.start) and not (section == "roles" and name in self.facts.roles)

    def mix(self) -> None:
        """`[task]` becomes one of several in `[tasks]`. Only of a form in which nothing is wrong."""
        assert self.config is not None
        self.start = tables.as_one_of_several(self.start)
        self.latest = tables.as_one_of_several(self.config)
        self._out.clear()
        self.facts = TaskFacts(rewards=self.facts.rewards)  # the tasks tell of themselves under other names now
        self._fill({f.name: f.text for f in fields(self.latest, self.facts)})

    def learn(self, facts: TaskFacts) -> None:
        """Take what the tasks tell of themselves; nothing that was typed is lost.

        Of one that can't be made what was known stays, but for why it can't.
        """
        known = self.facts
        self.facts = TaskFacts(
            facts.options or known.options,
            facts.rewards or known.rewards,
            facts.functions or known.functions,
            facts.roles or known.roles,
            facts.problem,
        )
        self._fill()

    def _fill(self, typed: Mapping[str, str] | None = None) -> None:
        """Every field there is, with what was typed in it, or what is told here."""
        typed = {f.name: f.text for f in self.fields if f.is_changed} | dict(typed or {})
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
        self.groups |= {place: Group(is_out=True) for place in self._out if place not in self.groups}
        self.groups = dict(sorted(self.groups.items(), key=lambda item: SECTIONS.index(_section(item[0]))))
        new = self.put_in
        for name, group in self.groups.items():
            group.is_new = name in new
            group.is_open = not group.is_out and self._folded.get(name, _section(name) in OPEN)
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
        """What the schemas of tasks and reward functions have against their options."""
        found: dict[str, str] = {}
        for place, (taker, started) in self._takers().items():
            options = dict(started)
            for name, text in changes.items():
                if name.startswith(place):
                    option = name.removeprefix(place)
                    options.pop(option, None)
                    if text is not None:
                        options[option] = read_value(self._fields[name].key, text)
            for option, problem in taker.problems(options).items():
                found[place + option] = problem.removeprefix(f"option {option!r} ")
        return found

    def _takers(self) -> dict[str, tuple[Options, Mapping[str, Any]]]:
        """Who takes options and has a schema of its own, with what the start says, by what the keys begin with."""
        found: dict[str, tuple[Options, Mapping[str, Any]]] = {}
        for name, taker in self.facts.options.items():
            if (part := self.start.parts.get(name)) is not None:
                found[f"tasks.{name}.options." if name else "task.options."] = taker, part.options
        for name, taker in self.facts.rewards.items():
            if name in self.start.rewards:
                found[f"rewards.{name}.options."] = taker, self.start.rewards[name].options
        return found


def _section(group: str) -> str:
    return group.partition(".")[0]


def _change(f: Field) -> str | None:
    """What to do with its key: the default need not be said."""
    return None if f.text == f.default and not f.key.required else f.text


def _passes(f: Field, words: list[str], is_new: bool) -> bool:
    texts = f"{f.name} {f.key.description} {f.text}".lower()
    for word in words:
        if word == CHANGED:
            if not f.is_changed and not is_new:
                return False
        elif word == WRONG:
            if not f.problem:
                return False
        elif word not in texts:
            return False
    return True
