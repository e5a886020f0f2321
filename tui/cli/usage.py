"""Parsing of arguments that says what is wrong in one plain line, and in a second where all there is is listed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, NoReturn

from tui.cli.refusal import USAGE_ERROR


class Parser(argparse.ArgumentParser):
    """Of the whole command line or of one command. Options are spelt out in full."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **more)

    def error(self, message: str) -> NoReturn:
        print(f"selfplay-tui: {message.removeprefix('argument ')}", file=sys.stderr)
        print(f"{self.prog} --help lists all there is", file=sys.stderr)
        raise SystemExit(USAGE_ERROR)

    def parse_known_args(  # type: ignore[override]
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Leaves nothing unknown to the parser above, which has other options and could only name wrong ones."""
        words = sys.argv[1:] if args is None else list(args)
        # one that stands first is looked at first, or its value would be taken for a command
        self._look_at_options(takewhile(_is_option, words))
        found, unknown = super().parse_known_args(words, namespace)
        self._look_at_options(filter(_is_option, unknown))
        if unknown:
            self.error(f"{unknown[0]}: one word too many")
        return found, unknown

    def _look_at_options(self, words: Iterable[str]) -> None:
        known = self._option_string_actions
        for option in (word.partition("=")[0] for word in words):
            if option not in known:
                elsewhere = "; those of a command come after it" if self._subparsers else ""
                self.error(f"{option}: no such option{_meant(option, known, 0.7) or elsewhere}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        if action.option_strings:
            self.error(f"{action.option_strings[0]}: wants {' or '.join(action.choices)}, not {value!r}")
        self.error(f"{value}: no such command{_meant(value, action.choices, 0.6)}")


def _is_option(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != "" and not word[1:2].isdigit()


def _meant(asked: str, known: Iterable[str], cutoff: float) -> str:
    import difflib

    near = difflib.get_close_matches(asked, list(known), cutoff=cutoff)
    return f"; did you mean {' or '.join(near)}?" if near else ""
