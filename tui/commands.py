"""What several screens let one do to a run: pause it, take one step, edit prompts, keep a checkpoint.

A command that the run refuses is told to who gave it; the run and the app go on.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from textual.screen import Screen

from engine.events import RunState
from tui.session import Session

ENDED = (RunState.FINISHED, RunState.STOPPED, RunState.FAILED)


def idle(session: Session) -> set[str]:
    """Names of actions that could do nothing, as the run stands, but say why not: key bars leave them out."""
    state = session.state
    found: set[str] = set()
    if state in (RunState.LOADING, RunState.FINISHED):
        found |= {"pause", "checkpoint"}
    if state not in (RunState.RUNNING, RunState.PAUSED):
        found.add("step")
    if state in ENDED:
        found.add("follow")
    return found if session.live else found | {"prompts", "change", "undo"}


def say(screen: Screen[Any], text: str, severity: str = "information") -> None:
    """A toast of the app's own kind, also from a worker that outlives its screen."""
    screen.app.call_later(getattr(screen.app, "say"), text, severity)  # noqa: B009


def give(screen: Screen[Any], work: Coroutine[Any, Any, None]) -> None:
    """Has a command carried out beside the screen."""

    async def reported() -> None:
        try:
            await work
        except Exception as error:
            say(screen, f"{error}" or type(error).__name__, "error")

    screen.run_worker(reported(), group="steer", exit_on_error=False)


def pause(screen: Screen[Any], session: Session) -> None:
    """Pause the run, or have it go on."""
    session.drain()  # what it does now counts, not what was last drawn
    run, state = session.run, session.state
    if state in ENDED:
        say(screen, f"The run has {state.value}: there is nothing to pause.", "warning")
    elif state is RunState.PAUSED:
        run.resume()
    elif state is RunState.RUNNING:
        run.pause()
    else:
        say(screen, "The model is still loading.")
    session.drain()


def step_once(screen: Screen[Any], session: Session) -> None:
    """One step from a pause; a run that plays is paused first, so that the next press is a step."""
    session.drain()
    if session.state is RunState.PAUSED:
        session.run.step_once()
    elif session.state is RunState.RUNNING:
        session.run.pause()
        say(screen, "Paused. The same key again learns one step.")
    elif session.state in ENDED:
        say(screen, _to_go_on(session), "warning")
    else:
        say(screen, "The model is still loading.")
    session.drain()


def _to_go_on(session: Session) -> str:
    if session.state is RunState.FINISHED:
        return f"The run has finished. To go on: selfplay-tui resume {session.run.name} --steps MORE"
    return f"The run has {session.state.value}: resume it from Home to take a step."


def checkpoint(screen: Screen[Any], session: Session) -> None:
    async def keep() -> None:
        say(screen, f"Checkpoint kept in {await session.run.checkpoint()}")

    give(screen, keep())


def prompts(
    screen: Screen[Any], session: Session, role: str = "", written: Mapping[str, str] | None = None
) -> None:
    """Opens the editor of prompts; what is changed there is in force from the next episode.

    It opens again on what was `written` if the run doesn't take it: a full disk costs nobody a page of text.
    """
    from tui.screens.prompt import EditPrompt  # a run's first frame would wait for it
    from tui.steering import versions

    if not session.live and not written:
        say(screen, "Prompts can be edited while the run is at work.", "warning")
        return
    edits = session.store.edits
    found = {name: versions(edits, name, r.system_prompt) for name, r in session.run.roles.items()}

    async def edit(changed: dict[str, str]) -> None:
        left = dict(changed)
        try:
            for name, prompt in changed.items():
                number = await session.run.edit_role(name, prompt)
                del left[name]
                say(screen, f"Edit {number}: {name} plays under its new prompt from the next episode on.")
        except Exception:
            prompts(screen, session, next(iter(left)), left)
            raise

    def edited(changed: dict[str, str] | None) -> None:
        if changed:
            give(screen, edit(changed))

    screen.app.push_screen(EditPrompt(found, role, written), edited)
