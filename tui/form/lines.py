"""The lines of a form, and all there is to say of one of its rows."""

from __future__ import annotations

from tui.form.fields import GENERAL, Field
from tui.form.form import MORE, Form, Row
from tui.text import fit, one_line, width, wrap
from tui.theme import Palette, style
from tui.widgets.painted import BLANK, Line, cut
from tui.words import plural

LABEL, VALUE = 28, 40
"""Most cells of a field's name, and of its value."""

ABOUT = {
    GENERAL: "what Home shows",
    "task": "what is played",
    "tasks": "one of several tasks",
    "model": "who plays",
    "roles": "how a role speaks",
    "rewards": "what is paid beside what the task pays",
    "run": "how long, how many episodes",
    "lora": "the adapter that learns",
    "train": "how it learns",
    "credit": "what a turn was worth",
    "past": "earlier selves as opponents",
    "eval": "how it is measured",
    "checkpoint": "what is kept",
}


ADD = "Puts in a reward function, or a task to train on beside the others or only to measure."


def columns(cells: int) -> tuple[int, int]:
    """Where values begin in a line, and how many cells they have."""
    label = min(LABEL, max(cells * 3 // 10, 16))
    return label + 5, min(VALUE, max(cells * 3 // 10, 16))


def row_line(form: Form, row: Row, cells: int, colours: Palette, is_here: bool) -> Line:
    """A heading or a field in one line of at most `cells` cells."""
    f = row.field
    return cut(_heading(form, row, colours) if f is None else _field(f, cells, colours, is_here), cells)


def _heading(form: Form, row: Row, colours: Palette) -> Line:
    if row.group == MORE:
        return (
            (f" {MORE} ", style(colours.accent)),
            ("add a reward function or a task", style(colours.accent, bold=True)),
        )
    name, group = row.group, form.groups[row.group]
    if group.is_out:
        return ((f" ✗ {one_line(name, 40)}", style(colours.soft)), ("  taken out", style(colours.text)))
    counts = ["new"] if group.is_new else []
    counts += [f"{group.changed} changed"] if group.changed else []
    wrong = ((f"  ✗ {group.wrong} wrong", style(colours.watch)),) if group.wrong else ()
    about = ABOUT.get(name.partition(".")[0], "")
    return (
        (f" {'▾' if row.is_open else '▸'} ", style(colours.accent)),
        (one_line(name, 40), style(colours.accent, bold=True)),
        (f"  {about}", style(colours.soft)),
        ("".join(f"  ● {count}" for count in counts), style(colours.text)),
        *wrong,
    )


def _field(f: Field, cells: int, colours: Palette, is_here: bool) -> Line:
    start, room = columns(cells)
    sign, look = "  ", colours.text
    if f.problem:
        sign, look = "✗ ", colours.watch
    elif f.is_changed:
        sign = "● "
    note, note_look = (f.problem, colours.watch) if f.problem else (f.key.description, colours.faint)
    return (
        (f"   {sign}", style(colours.watch if f.problem else colours.accent)),
        (fit(one_line(f.label, 60), start - 6) + " ", style(colours.text if f.text != f.default else colours.soft)),
        (fit(_value(f, is_here), room), style(look, bold=f.is_changed)),
        (f"  {one_line(note)}", style(note_look)),
    )


def _value(f: Field, is_here: bool) -> str:
    if f.choices:
        word = f.text or "as the task has it"
        return f"‹ {one_line(word)} ›" if is_here else one_line(word)
    if not f.text:
        return one_line(f.own.replace("\n", " "), 200) and f"({one_line(f.own, 200)})"
    first, *more = f.text.split("\n")
    return f"{one_line(first)} ⏎ +{len(more)}" if more else one_line(first)


def about(form: Form, row: Row | None, cells: int, colours: Palette) -> list[Line]:
    """Help, bounds, default, what the preset said, and what is wrong, for the row the cursor is on."""
    soft, plain, watch = style(colours.soft), style(colours.text), style(colours.watch)

    def told(text: str, look=soft) -> list[Line]:
        return [((f" {line}", look),) for line in wrap(one_line(text), cells - 2)]

    f = row.field if row else None
    lines: list[Line] = told("No key passes the filter: esc clears it.") if row is None else []
    if row is not None and f is None:
        name = "Another table" if row.group == MORE else f"[{one_line(row.group, 40)}]"
        lines += [((f" {name}", style(colours.text, bold=True)),), BLANK]
        lines += told(ADD if row.group == MORE else ABOUT.get(row.group.partition(".")[0], ""))
        lines += [BLANK, *told(_to_do(form, row.group), style(colours.accent))]
    elif f is not None:
        lines.append(((f" {fit(one_line(f.name, 80), cells - 2)}", style(colours.text, bold=True)),))
        lines += told(f"✗ {f.problem}", watch) if f.problem else []
        lines += told(f.key.description)
        for name, value in _facts(f):
            first, *more = wrap(one_line(value), cells - 11)
            lines.append(((f" {fit(name, 8)} ", soft), (first, plain)))
            lines += [((" " * 10 + line, plain),) for line in more[:6]]
        lines += told(_todo(f), style(colours.accent))
    for name, problem in form.rest.items():
        lines += [BLANK, *told(f"✗ {name}: {problem}", watch)]
    if form.facts.problem and form.config is not None:
        lines += [BLANK, *told(f"✗ {form.facts.problem}", watch)]
    return lines


def _to_do(form: Form, group: str) -> str:
    """What enter does on a heading."""
    if group == MORE:
        return "enter shows what there is"
    if form.groups[group].is_out:
        return "enter puts it back"
    return "enter folds it, or unfolds it" + ("; ctrl+t takes it out" if form.can_be_out(group) else "")


def _facts(f: Field) -> list[tuple[str, str]]:
    return [
        ("wants", f.key.wants + (", or nothing" if f.key.optional and f.key.kind is not object else "")),
        ("default", "has to be said" if f.key.required else f.default or _nothing(f)),
        *([("left out", f.own)] if f.own else []),
        *([("was", f.start or _nothing(f))] if f.is_changed else []),
    ]


def _nothing(f: Field) -> str:
    return "left out" if f.key.optional else "empty"


def _todo(f: Field) -> str:
    if f.choices:
        return "← → or space chooses"
    return "enter opens the whole text" if is_long(f) else "type to change it"


def is_long(f: Field) -> bool:
    """Whether its text needs more than a line to be edited in."""
    return f.is_long or "\n" in f.text or width(f.text) > 300


def head(name: str, form: Form, memory: str, colours: Palette) -> tuple[Line, Line]:
    """What stands above: what is edited and what has become of it, and what it needs."""
    wrong = len(form.problems)
    more, fewer = len(form.put_in), len(form.taken_out)
    said = [f"{plural(keys, 'key')} changed"] if (keys := form.changed - more - fewer) else []
    said += [f"{plural(more, 'table')} new"] if more else []
    said += [f"{plural(fewer, 'table')} out"] if fewer else []
    left: Line = (
        (f" {one_line(name, 40)}", style(colours.accent, bold=True)),
        (f"  {', '.join(said) or 'nothing changed'}", style(colours.soft)),
        *(((f"  ✗ {wrong} wrong", style(colours.watch)),) if wrong else ()),
        *((("  ✗ refused by the task", style(colours.watch)),) if form.facts.problem and not wrong else ()),
    )
    return left, ((f"memory {one_line(memory, 40)} " if memory else "", style(colours.text)),)
