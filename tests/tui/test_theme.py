"""Themes can be read, and roles told apart, whoever looks."""

from __future__ import annotations

import pytest

from tui.theme import PALETTES, SIGNS, Palette

ENOUGH = 4.5
"""What WCAG 2.2 (1.4.3) asks of text."""

GROUNDS = ("background", "surface", "panel", "cursor")
TEXTS = ("text", "soft", "faint", "accent", "good", "watch", "bad")


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`, as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_the_measure_of_contrast_agrees_with_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=lambda palette: palette.name)
def test_every_text_can_be_read_on_every_ground(palette: Palette) -> None:
    for ground in GROUNDS:
        behind = getattr(palette, ground)
        for name in TEXTS:
            assert contrast(getattr(palette, name), behind) >= ENOUGH, f"{name} on {ground}"
        for place, colour in enumerate(palette.role_colours):
            assert contrast(colour, behind) >= ENOUGH, f"role {place} on {ground}"


def test_one_theme_is_told_apart_with_any_colour_vision() -> None:
    """Okabe and Ito's colours, of which the darker ones were lightened; hues stay within 3 degrees."""
    okabe_ito = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00")
    from colorsys import rgb_to_hls

    def hue(colour: str) -> float:
        return rgb_to_hls(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))[0] * 360

    for ours, theirs in zip(PALETTES["clear"].role_colours, okabe_ito, strict=False):
        assert abs(hue(ours) - hue(theirs)) < 3


def test_roles_have_signs_beside_their_colours() -> None:
    assert len(set(SIGNS)) == len(SIGNS) >= max(len(palette.role_colours) for palette in PALETTES.values())
