"""Three themes, and what each gives to widgets that paint their own lines.

Role colours come with signs, and good and bad with words or marks: without colour nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style

if TYPE_CHECKING:
    from textual.theme import Theme

SIGNS = "●○◆◇▲△■□"
"""A role's sign, by its place."""


@dataclass(frozen=True, slots=True)
class Palette:
    """The styles of one theme. No backgrounds but the cursor's: CSS paints the ground."""

    name: str
    title: str
    dark: bool
    background: str
    surface: str
    panel: str
    text: str
    soft: str
    """Secondary text."""
    faint: str
    """What has settled, and axes; still text, so with the contrast of text."""
    rule: str
    """Lines that nobody has to read."""
    accent: str
    good: str
    watch: str
    bad: str
    role_colours: tuple[str, ...]
    cursor: str
    """The background of the row that is selected."""

    def role(self, place: int) -> Style:
        return style(self.role_colours[place % len(self.role_colours)])

    def colour(self, place: int) -> str:
        return self.role_colours[place % len(self.role_colours)]


def sign(place: int) -> str:
    """The mark that tells a role without colour."""
    return SIGNS[place % len(SIGNS)]


@lru_cache(256)
def style(colour: str, *, bold: bool = False, italic: bool = False, ground: str | None = None) -> Style:
    return Style(color=colour, bold=bold or None, italic=italic or None, bgcolor=ground)


DUSK = Palette(
    name="dusk",
    title="Dusk (dark)",
    dark=True,
    background="#14171c",
    surface="#191d24",
    panel="#222833",
    text="#d7dce4",
    soft="#a9b2c0",
    faint="#8a94a5",
    rule="#566173",
    accent="#8ab4f8",
    good="#8fcf9f",
    watch="#e5c07b",
    bad="#f0838a",
    role_colours=("#6fb7e9", "#e8a66a", "#a3cf7d", "#c99be8", "#63cdbf", "#e58bb0", "#d9c66a", "#9aa9ff"),
    cursor="#242c3a",
)
PAPER = Palette(
    name="paper",
    title="Paper (light)",
    dark=False,
    background="#faf8f4",
    surface="#f3f0ea",
    panel="#e9e5dd",
    text="#2b2f36",
    soft="#4f555f",
    faint="#6a665d",
    rule="#a09c92",
    accent="#2f5fb3",
    good="#2a7340",
    watch="#875f00",
    bad="#b3323d",
    role_colours=("#1e6aa0", "#9e520f", "#47711d", "#7b46a8", "#137267", "#a83a6b", "#756600", "#4a53b8"),
    cursor="#dfe6f3",
)
CLEAR = Palette(
    name="clear",
    title="Clear (colour-blind safe)",
    dark=True,
    background="#101214",
    surface="#16191c",
    panel="#22272c",
    text="#e6e8ea",
    soft="#aab1b8",
    faint="#8b949c",
    rule="#5f6972",
    accent="#56b4e9",
    good="#56b4e9",
    watch="#f0e442",
    bad="#e69f00",
    role_colours=("#56b4e9", "#e69f00", "#00a97b", "#f0e442", "#cc79a7", "#f26b00", "#b8c4cf", "#5597db"),
    cursor="#222d36",
)
"""Colours of Okabe and Ito, told apart with any kind of colour vision; the darker ones lightened until they
can be read."""

PALETTES = {palette.name: palette for palette in (DUSK, PAPER, CLEAR)}


def palette(name: str) -> Palette:
    """The palette of a theme; another theme's widgets are painted in ours for the dark."""
    return PALETTES.get(name, DUSK)


def themes() -> list[Theme]:
    """The palettes as Textual themes."""
    from textual.theme import Theme

    return [
        Theme(
            name=p.name,
            primary=p.accent,
            secondary=p.soft,
            accent=p.accent,
            foreground=p.text,
            background=p.background,
            surface=p.surface,
            panel=p.panel,
            success=p.good,
            warning=p.watch,
            error=p.bad,
            dark=p.dark,
            variables={
                "soft": p.soft,
                "faint": p.faint,
                "rule": p.rule,
                "cursor": p.cursor,
                "border": p.rule,
                "border-blurred": p.panel,
                "block-cursor-background": p.cursor,
                "block-cursor-foreground": p.text,
                "block-cursor-text-style": "none",
                "block-cursor-blurred-background": p.panel,
                "block-cursor-blurred-foreground": p.text,
                "block-hover-background": p.surface,
                "input-selection-background": f"{p.accent} 35%",
                "scrollbar": p.panel,
                "scrollbar-hover": p.rule,
                "scrollbar-active": p.soft,
                "scrollbar-background": p.background,
                "scrollbar-background-hover": p.background,
                "scrollbar-background-active": p.background,
                "scrollbar-corner-color": p.background,
            },
        )
        for p in PALETTES.values()
    ]
