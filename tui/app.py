"""The terminal app: Home, a run, and a clean way out whatever happens.

It knows runs only through `tui.interface`, and never touches a model, an array or a thread.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from textual import events
from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.filter import ANSIToTruecolor, LineFilter, Monochrome, NoColor
from textual.notifications import Notification, Notify
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from engine.config import Config
from tui import notices, opening, terminal, toasts
from tui.actions import ACTIONS, bindings, key_name, scope_of
from tui.cadence import Cadence
from tui.interface import PresetInfo, RunInfo, RunLike, Sources
from tui.keymap import Keymap
from tui.leaving import Leaving
from tui.listing import Live
from tui.memory import Memory
from tui.screens.dialog import Confirm, TooSmall
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.jump import Jump, targets
from tui.telling import Telling
from tui.text import clean, one_line
from tui.theme import PALETTES, themes
from tui.typeahead import TypeAhead
from tui.widgets.divider import beside
from tui.widgets.stack import stacked

if TYPE_CHECKING:
    from tui.screens.form import FormScreen
    from tui.screens.steer import SteerScreen
    from tui.session import Session

GONE = 0.1
"""Seconds after which a toast that was taken away is gone."""


class SelfPlayApp(App[None], inherit_bindings=False):
    """`presets` and `runs` list what Home shows, `create` and `resume` make a run of one; `start` opens at once.

    `configure` makes a run of an edited preset, and `judge` tells what memory it would take.

    `fps` is how often a second episodes and transcript are redrawn at most; the transcript alone twice as often.
    After it ended, `return_code` says how: 0, 1 for a failed run, 128 + the signal that ended it.
    """

    TITLE = "selfplay-tui"
    CSS_PATH = "app.tcss"
    SUSPENDED_SCREEN_CLASS = "-covered"
    BINDINGS = bindings("app")

    def __init__(
        self,
        *,
        presets: Callable[[], list[PresetInfo]],
        runs: Callable[[], list[RunInfo]],
        create: Callable[[str], RunLike],
        resume: Callable[[Path], RunLike],
        start: RunLike | None = None,
        fps: int = 10,
        clock: Callable[[], float] = time.monotonic,
        keymap: Keymap | None = None,
        memory: Memory | None = None,
        configure: Callable[[Config], RunLike] | None = None,
        judge: Callable[[Config], str] | None = None,
    ) -> None:
        super().__init__()
        self.memory = memory or Memory()
        """What outlasts the app."""
        self.keys = keymap or Keymap()
        self.set_keymap(self.keys.keys)
        self.caller = notices.Caller(self._to_terminal)
        self.caller.wanted = self.memory.flag("notices", True)
        self.sources = Sources(presets, runs, create, resume, configure=configure, judge=judge)
        self.fps = fps
        self.clock = clock
        self.session: Session | None = None
        self._start_with = start
        self.telling = Telling(self)
        self.leaving = Leaving(self)
        self._type_ahead = TypeAhead(self)
        self._cadence = Cadence()
        if self.no_color:
            # no grey shades either: whoever asks for no colour gets none
            self._filters = [f for f in self._filters if not isinstance(f, Monochrome)] + [NoColor()]
        for theme in themes():
            self.register_theme(theme)
        remembered = self.memory.text("theme", "")
        self.theme = remembered if remembered in PALETTES else next(iter(PALETTES))

    def get_driver_class(self) -> type[Driver]:
        return terminal.sturdy(super().get_driver_class())

    async def on_event(self, event: events.Event) -> None:
        self._cadence.stir()
        typed = isinstance(event, events.Key | events.Paste) and not event.is_forwarded
        if isinstance(event, events.Paste):
            event.text = clean(event.text, len(event.text))  # fields show what is in them as it is
        if not typed or self._type_ahead.may_pass(event):
            await super().on_event(event)

    async def on_mount(self) -> None:
        self.home = HomeScreen(self.sources)
        await opening.first(self, self._start_with)
        self.leaving.listen_to_signals()
        for problem in self.keys.problems:
            self.say(problem, "warning")
        # left out of full collections until a run ends: each of those stops the screen 30 ms less
        self.call_after_refresh(gc.freeze)
        self.call_after_refresh(gc.enable)  # the command line waits with it for the first frame
        self.call_after_refresh(self.set_timer, 0.2, self._read_ahead)
        self.set_interval(1 / (2 * self.fps), self._tick)
        self.set_interval(1.0, self.leaving.look_at_terminal)

    def _read_ahead(self) -> None:
        from tui import ahead

        self.run_worker(ahead.read(self), group="read ahead")

    # Frames

    async def _tick(self) -> None:
        session = self.session
        if session is None or self._cadence.is_early:
            return
        from tui.screens.run import RunScreen

        if session.drain():
            self._cadence.stir()
        await asyncio.sleep(0)  # the engine's turn, and that of keys: they don't wait for both, this and a frame
        self.telling.look(session)
        top = self.screen_stack[-1] if self.screen_stack else None  # a timer may fire while the app closes
        if isinstance(top, RunScreen) and self._cadence.due():
            self._cadence.begin()
            await top.draw()
            top.call_after_refresh(self._cadence.painted)

    def get_line_filters(self) -> Sequence[LineFilter]:
        # That one looks through every line for colours by number, of which there are none here: 7% of all drawing.
        return [each for each in super().get_line_filters() if not isinstance(each, ANSIToTruecolor)]

    def say(self, text: str, severity: str = "information") -> None:
        """A toast, in plain text."""
        level: Literal["information", "warning", "error"] = "information"
        if severity == "warning":
            level = "warning"
        elif severity == "error":
            level = "error"
        self.notify(one_line(text), severity=level, markup=False, timeout=10 if level == "error" else 5)

    def on_notify(self, event: Notify) -> None:
        if toasts.renewed(self, event.notification):
            event.prevent_default()

    def _unnotify(self, notification: Notification, refresh: bool = True) -> None:
        super()._unnotify(notification, refresh)
        self.set_timer(GONE, partial(toasts.uncover, self))  # its time is over, or it was clicked away

    def on_resize(self, event: events.Resize) -> None:
        if len(self.screen_stack) == 1:  # told again once there is a screen that this could be too small for
            return
        wide, high = TooSmall.NEEDED
        small = event.size.width < wide or event.size.height < high
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.screen.dismiss()

    # Runs

    async def on_home_screen_chosen(self, message: HomeScreen.Chosen) -> None:
        await opening.choose(self, message.item)

    async def on_form_screen_ready(self, message: FormScreen.Ready) -> None:
        await opening.begin(self, message.config)

    async def on_run_screen_again(self) -> None:
        await opening.again(self)

    async def on_run_screen_left(self) -> None:
        await opening.close(self)  # before Home looks whose folder is in use
        await self.pop_screen()

    def on_steer_screen_back_wanted(self, message: SteerScreen.BackWanted) -> None:
        from tui import branching

        if self.session is not None:
            branching.go_back(self, self.session, message)

    def on_steer_screen_fork_wanted(self, message: SteerScreen.ForkWanted) -> None:
        from tui import branching

        if self.session is not None:
            branching.fork(self, self.session, message)

    def on_screen_resume(self) -> None:
        self._tell_home()

    def _tell_home(self) -> None:
        session = self.session
        if session is None or not session.live:
            self.home.live = None
            return
        status = session.status()
        self.home.live = Live(session.run.name, session.title, session.step, status.steps)

    def pop_screen(self):  # type: ignore[override]
        self._tell_home()
        popped = super().pop_screen()
        if len(self.screen_stack) == 1:  # a run that the app began with is left, behind which there was no Home
            self.push_screen(self.home)
        return popped

    # Actions of the table

    def action_theme(self) -> None:
        names = list(PALETTES)
        here = names.index(self.theme) if self.theme in names else -1
        self.theme = names[(here + 1) % len(names)]
        self.say(PALETTES[self.theme].title)

    def watch_theme(self) -> None:
        if self.is_mounted:
            self.memory.keep("theme", self.theme)
            for screen in self.screen_stack:
                if fill := getattr(screen, "fill", None):  # whoever paints lines in colours paints them anew
                    self.call_after_refresh(fill)

    def action_jump(self) -> None:
        if isinstance(self.screen, Jump):
            return
        found = targets(self.screen)

        def chosen(widget: Widget | None) -> None:
            if widget is not None:
                widget.focus(scroll_visible=False)

        self.push_screen(Jump(found), chosen)

    def action_resize(self, steps: int, lines: int = 0) -> None:
        focused, divider, stack = self.focused, beside(self.focused), stacked(self.focused)
        if lines and stack is not None and focused is not None and stack.move(focused, lines):
            return
        if lines or divider is None:
            self.say("There is no border to move here.")
        else:
            divider.move(steps)

    def action_notices(self) -> None:
        self.caller.wanted = not self.caller.wanted
        self.memory.keep("notices", self.caller.wanted)
        self.say("Notices on the desktop are on." if self.caller.wanted else "Notices on the desktop are off.")

    def on_app_focus(self) -> None:
        self.caller.in_front = True

    def on_app_blur(self) -> None:
        self.caller.in_front = False

    def _to_terminal(self, sequence: str) -> None:
        if self._driver is not None:
            self._driver.write(sequence)

    def action_help(self) -> None:
        if not isinstance(self.screen, Help):
            self.push_screen(Help(scope_of(self.screen) or "app"))

    def action_interrupt(self) -> None:
        """Ctrl+C: copies what is selected, otherwise asks; never nothing."""
        focused = self.focused
        if isinstance(focused, Input | TextArea) and focused.selected_text:
            self.copy_to_clipboard(focused.selected_text)
            self.say("Copied.")
        elif (selected := self.screen.get_selected_text()) is not None:
            self.copy_to_clipboard(selected)
            self.say("Copied.")
        elif self.leaving.is_under_way:
            self.leaving.leave()
        elif not isinstance(self.screen, Confirm):
            self.leaving.ask()

    async def action_quit(self) -> None:
        self.leaving.leave()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The table's actions that apply here, and each theme."""
        scopes = {"app", scope_of(screen)}
        for action in ACTIONS:
            if action.scope in scopes and action.name != "command_palette":
                owner = self if action.scope == "app" else screen
                keys = f"{action.label} · {key_name(action.keys_in(self.keys.keys).partition(',')[0])}"
                yield SystemCommand(action.help, keys, self._caller(action.action, owner))
        for p in PALETTES.values():
            yield SystemCommand(f"Theme: {p.title}", "Use this theme", partial(setattr, self, "theme", p.name))

    def _caller(self, action: str, owner: App[None] | Screen[object]) -> Callable[[], None]:
        async def perform() -> None:
            await owner.run_action(action)

        def call() -> None:
            self.call_later(perform)

        return call
