"""Health as lines: what was found, and what to do about it."""

from __future__ import annotations

from tui.health import Finding
from tui.text import fit, one_line, wrap
from tui.theme import Palette, style
from tui.widgets.painted import Line

LEVELS = {"good": "✓", "watch": "!", "bad": "✗", "none": "·"}


def health(found: list[Finding], cells: int, colours: Palette) -> list[Line]:
    """A line each, and what to do beneath those that ask for it."""
    looks = {
        "good": style(colours.good),
        "watch": style(colours.watch, bold=True),
        "bad": style(colours.bad, bold=True),
        "none": style(colours.faint),
    }
    lines: list[Line] = []
    for finding in found:
        calm = finding.level in ("good", "none")
        words = wrap(one_line(finding.words), cells - 13)
        look = style(colours.soft if calm else colours.text)
        lines.append(
            (
                (f" {LEVELS[finding.level]} ", looks[finding.level]),
                (fit(finding.name, 9) + " ", style(colours.soft)),
                (words[0], look),
            )
        )
        lines += [((" " * 13 + more, look),) for more in words[1:]]
        if finding.advice and not calm:
            told = wrap(one_line(finding.advice), cells - 15)
            lines += [
                ((" " * 13 + ("→ " if i == 0 else "  ") + more, style(colours.soft)),)
                for i, more in enumerate(told)
            ]
    return lines


def gist(found: list[Finding], colours: Palette) -> Line:
    """Health in three words."""
    bad = sum(finding.level == "bad" for finding in found)
    watch = sum(finding.level == "watch" for finding in found)
    if bad:
        return ((f"✗ {bad} to mend", style(colours.bad)),)
    if watch:
        return ((f"! {watch} to watch", style(colours.watch)),)
    return (("✓ well", style(colours.good)),)
