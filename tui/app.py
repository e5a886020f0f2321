"""The terminal app: Home, a run, and a clean way out whatever happens.

It knows runs only through `tui.interface`, and never touches a model, an array or a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.text import Text
from textual import events
from textual.app import App, SystemCommand
from textual.driver import Driver
from textual.filter import Monochrome, NoColor
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from engine.config import Config
from engine.events import RunState
from tui import notices, supervisor, terminal
from tui.actions import ACTIONS, bindings, key_name, scope_of
from tui.interface import PresetInfo, RunInfo, RunLike, Sources
from tui.keymap import Keymap
from tui.listing import Live
from tui.memory import Memory
from tui.screens.dialog import Confirm, TooSmall, Waiting
from tui.screens.help import Help
from tui.screens.home import HomeScreen
from tui.screens.jump import Jump, targets
from tui.text import one_line
from tui.theme import PALETTES, themes
from tui.widgets.divider import beside

if TYPE_CHECKING:
    from tui.screens.form import FormScreen
    from tui.screens.steer import SteerScreen
    from tui.session import Session

LATER = ("tui.screens.run", "tui.screens.form")
"""Screens that Home's first frame doesn't wait for: read in a thread once it is there; others when they open."""

TOASTS = 3
"""Notices shown of those that come at once."""

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class SelfPlayApp(App[None], inherit_bindings=False):
    """`presets` and `runs` list what Home shows, `create` and `resume` make a run of one; `start` opens at once.

    `configure` makes a run of an edited preset, and `judge` tells what memory it would take.

    `fps` is how often a second episodes and transcript are redrawn at most; the transcript alone twice as often.
    After it ended, `return_code` says how: 0, 1 for a failed run, 128 + the signal that ended it.
    """

    TITLE = "selfplay-tui"
    CSS_PATH = "app.tcss"
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
        self._news = notices.News()
        self.sources = Sources(presets, runs, create, resume, configure=configure, judge=judge)
        self.fps = fps
        self.clock = clock
        self.session: Session | None = None
        self._start_with = start
        self._asked = self._asked_before = False
        self._leaving: asyncio.Task[None] | None = None
        if self.no_color:
            # no grey shades either: whoever asks for no colour gets none
            self._filters = [f for f in self._filters if not isinstance(f, Monochrome)] + [NoColor()]
        for theme in themes():
            self.register_theme(theme)
        remembered = self.memory.text("theme", "")
        self.theme = remembered if remembered in PALETTES else next(iter(PALETTES))

    def get_driver_class(self) -> type[Driver]:
        return terminal.sturdy(super().get_driver_class())

    async def on_mount(self) -> None:
        self.home = HomeScreen(self.sources)
        await self.push_screen(self.home)
        if self._start_with is not None:
            await self._open(self._start_with)
        self._listen_to_signals()
        for problem in self.keys.problems:
            self.say(problem, "warning")
        # what was made so far stays: left out of full collections, each of those stops the screen 30 ms less
        self.call_after_refresh(gc.freeze)
        self.set_timer(0.2, self._read_ahead)
        self.set_interval(1 / (2 * self.fps), self._tick)
        self.set_interval(1.0, self._look_at_terminal)

    def _read_ahead(self) -> None:
        self.run_worker(lambda: [import_module(name) for name in LATER], thread=True, group="read ahead")

    # Frames

    async def _tick(self) -> None:
        if self.session is None:
            return
        from tui.screens.run import RunScreen

        self.session.drain()
        notices = self.session.store.notices
        for _ in range(min(len(notices), TOASTS)):
            notice = notices.popleft()
            self.say(notice.text, notice.severity)
        if notices:
            self.say(f"and {len(notices)} more notices")
            notices.clear()
        self._call_for_answers(self.session)
        if news := self._news.of(self.session):
            self.caller.call(news)
        top = self.screen_stack[-1] if self.screen_stack else None  # a timer may fire while the app closes
        if isinstance(top, RunScreen):
            await top.draw()

    def _call_for_answers(self, session: Session) -> None:
        """A bell when episodes begin to ask, and a word the first time; from then on the status line tells."""
        from tui.screens.questions import Questions

        asked = bool(session.run.questions)
        if asked and not self._asked and not isinstance(self.screen, Questions):
            self.bell()
            if not self._asked_before:
                self.say("An episode asks you something: press a on the run to answer.")
                self._asked_before = True
        self._asked = asked

    def say(self, text: str, severity: str = "information") -> None:
        """A toast, in plain text."""
        level: Literal["information", "warning", "error"] = "information"
        if severity == "warning":
            level = "warning"
        elif severity == "error":
            level = "error"
        self.notify(one_line(text), severity=level, markup=False, timeout=10 if level == "error" else 5)

    def on_resize(self, event: events.Resize) -> None:
        wide, high = TooSmall.NEEDED
        small = event.size.width < wide or event.size.height < high
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.screen.dismiss()

    # Runs

    async def on_home_screen_chosen(self, message: HomeScreen.Chosen) -> None:
        item = message.item
        if isinstance(item, Live):
            self._show_run()
        elif item.problem:
            self.say(item.problem, "error")
        elif self.session is not None and self.session.live:
            self._ask_to_replace(item)
        else:
            await self._begin(item)

    async def on_form_screen_ready(self, message: FormScreen.Ready) -> None:
        if self.session is not None and self.session.live:
            self._ask_to_replace(message.config)
        else:
            await self._begin(message.config)

    async def on_run_screen_again(self) -> None:
        """Opens the run anew in its own place: from its record, as after any other end."""
        from tui.screens.run import RunScreen

        session = self.session
        if session is None or session.live:
            return
        try:
            run = self.sources.resume(session.run.folder)
        except Exception as error:  # whatever keeps it from being opened is told, and the screen stays
            self.say(f"{error}" or type(error).__name__, "error")
            return
        while isinstance(self.screen, RunScreen):
            await self.pop_screen()
        await self._open(run)

    def on_steer_screen_back_wanted(self, message: SteerScreen.BackWanted) -> None:
        from tui import branching

        if self.session is not None:
            branching.go_back(self, self.session, message)

    def on_steer_screen_fork_wanted(self, message: SteerScreen.ForkWanted) -> None:
        from tui import branching

        if self.session is not None:
            branching.fork(self, self.session, message)

    async def leave_session(self) -> None:
        """Nothing is watched any more; of a run that was only read, the folder is free again."""
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    async def open_folder(self, folder: Path) -> None:
        """Opens a run over Home, whatever stood there."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, HomeScreen):
            await self.pop_screen()
        try:
            run = self.sources.resume(folder)
        except Exception as error:  # as of Home's lists: it is told, and one is there to choose another
            self.say(f"{error}" or type(error).__name__, "error")
            return
        await self._open(run)

    def _ask_to_replace(self, item: PresetInfo | RunInfo | Config) -> None:
        assert self.session is not None
        name = self.session.run.name
        question = Confirm(
            f"{name} is at work",
            "One run works at a time. Stopped, it keeps its state and can be resumed from Home.",
            "Stop it and go on",
        )

        def answered(yes: bool | None) -> None:
            if yes:
                self.run_worker(self._replace(item), group="replace", exclusive=True)

        self.push_screen(question, answered)

    async def _replace(self, item: PresetInfo | RunInfo | Config) -> None:
        if self.session is not None:
            waiting = Waiting("Stopping", f"Saving the state of {self.session.run.name} …")
            await self.push_screen(waiting)
            await self.session.stop()
            waiting.dismiss()
        await self._begin(item)

    async def _begin(self, item: PresetInfo | RunInfo | Config) -> None:
        try:
            if isinstance(item, PresetInfo):
                run = self.sources.create(item.name)
            elif isinstance(item, Config):
                assert self.sources.configure is not None
                run = self.sources.configure(item)
            else:
                run = self.sources.resume(item.folder)
        except Exception as error:  # a preset or a folder may be wrong in any way: say so and stay on Home
            self.say(f"{error}" or type(error).__name__, "error")
            return
        ended = isinstance(item, RunInfo) and item.state == RunState.FINISHED
        await self._open(run, RunState.FINISHED if ended else None)

    async def _open(self, run: RunLike, ended: RunState | None = None) -> None:
        from tui.session import Session

        if self.session is not None:
            await self.session.close()
        self.session = Session(run, self.clock)
        if ended is None:
            self.session.begin()
        else:
            self.session.show_only(ended)
        self._show_run()

    def _show_run(self) -> None:
        from tui.screens.form import FormScreen
        from tui.screens.run import RunScreen

        if isinstance(self.screen, FormScreen):
            self.screen.dismiss()
        if self.session is not None:
            self.push_screen(RunScreen(self.session, self.fps))

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
        return super().pop_screen()

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

    def action_resize(self, steps: int) -> None:
        divider = beside(self.focused)
        if divider is None:
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
        elif self._leaving is not None:
            self._end(1, "")
        elif not isinstance(self.screen, Confirm):
            self._ask_to_quit()

    def _ask_to_quit(self) -> None:
        words = "Nothing is at work."
        if self.session is not None and self.session.live:
            words = (
                f"{self.session.run.name} is at work. It is stopped cleanly and its state is saved: "
                "resume it from Home whenever you like."
            )

        def answered(yes: bool | None) -> None:
            if yes:
                self.leave()

        self.push_screen(Confirm("Quit?", words, "Quit", "Stay"), answered)

    async def action_quit(self) -> None:
        self.leave()

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

    # Leaving

    def leave(self, code: int | None = None) -> None:
        """Ends the app: a run at work is stopped first and its state saved. Asked twice, leaves at once."""
        if self._leaving is not None:
            self._end(code or 1, "")
            return
        self._leaving = asyncio.create_task(self._leave(code))

    async def _leave(self, code: int | None) -> None:
        session = self.session
        words = ""
        if session is not None:
            if session.live:
                text = f"Saving the state of {session.run.name} … (^q again leaves at once)"
                await self.push_screen(Waiting("Stopping", text))
                await session.stop()
                words = f"{session.run.name} is saved in {session.run.folder}"
            await session.close()
            if code is None and session.state is RunState.FAILED:
                code = 1
                words = f"{session.run.name} failed: {session.store.reason}"
        self._end(code or 0, words)

    def _end(self, code: int, words: str) -> None:
        self.exit(return_code=code, message=Text(one_line(words)) if words else None)

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            # not in the main thread, as in a test or under another host: there signals are not ours to handle
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self._signalled, number)

    def _signalled(self, number: int) -> None:
        terminal.let_go()
        if self._leaving is None:
            self.leave(128 + number)

    def _look_at_terminal(self) -> None:
        """A terminal may be closed, or our parent killed, without a signal reaching us."""
        if (terminal.let_go() or supervisor.orphaned()) and self._leaving is None:
            self.leave(128 + signal.SIGHUP)
