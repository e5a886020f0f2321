"""Questions that episodes put to the person who watches.

A person is slow and may not be there, so a question may go unanswered, and nothing but the episode that asked waits
for it. `OPEN` of them are before the person at once; the others wait in order. A question's time counts from when
it was asked or, if that was later, from when the person last answered any: whoever answers one after the other has
time for all, and whoever isn't there holds a step up once. In a pause no time passes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.events import Event, HumanAnswered, HumanAsked
from engine.types import Question

OPEN = 8
"""Questions before the person at once."""


@dataclass(eq=False, slots=True)
class _Asked:
    question: Question
    answer: asyncio.Future[str | None]
    since: float
    is_open: bool = False


class Humans:
    """The questions not yet answered, in their order."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        """`tell` is told of each question that opens and each that is over."""
        self.on_absent: Callable[[], None] | None = None
        """Called the first time that nobody is there to be asked."""
        self._tell = tell
        self._attended = False
        self._asked: dict[int, _Asked] = {}
        self._next_id = 1
        self._heard = 0.0
        """When the person last answered."""
        self._paused = 0.0
        """Seconds spent in pauses."""
        self._held: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def attended(self) -> bool:
        """Whether a person is there. Who leaves takes the questions along: they end unanswered."""
        return self._attended

    @attended.setter
    def attended(self, is_there: bool) -> None:
        self._attended = is_there
        if not is_there:
            for id in list(self._asked):
                self._end(id, None)

    @property
    def questions(self) -> list[Question]:
        """Those that are open, each with the seconds it has left."""
        return [replace(asked.question, left=self._left(asked)) for asked in self._asked.values() if asked.is_open]

    def ask(
        self, rollout_id: str, text: str, choices: Sequence[str], about: Sequence[str], seconds: float | None
    ) -> asyncio.Future[str | None] | None:
        """A future of the answer, None where there is none; at once None if nobody is there.

        Cancelling the future withdraws the question.
        """
        _check(text, choices, about, seconds)
        if not self._attended:
            if self.on_absent is not None:
                self.on_absent()
                self.on_absent = None
            return None
        id, self._next_id = self._next_id, self._next_id + 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(partial(self._if_withdrawn, id))
        question = Question(id, rollout_id, text, tuple(choices), tuple(about), seconds)
        self._asked[id] = _Asked(question, answer, self._now())
        self._go_on()
        return answer

    def answer(self, id: int, text: str | None) -> None:
        """What the person says; None skips the question.

        Raises `KeyError` for a question that isn't open (any more), `ValueError` for an answer it doesn't take.
        """
        asked = self._asked.get(id)
        if asked is None or not asked.is_open:
            raise KeyError(f"question {id} is over, or there never was one")
        choices = asked.question.choices
        if text is not None and choices and text not in choices:
            raise ValueError(f"question {id} wants one of {', '.join(map(repr, choices))}, not {text!r}")
        if text is not None and not text.strip():
            raise ValueError(f"question {id} wants an answer of at least one letter; to leave it, skip it")
        self._heard = self._now()
        self._end(id, text)

    def pause(self) -> None:
        if self._held is None:
            self._held = time.monotonic()
            self._set_timer()

    def resume(self) -> None:
        if self._held is not None:
            self._paused += time.monotonic() - self._held
            self._held = None
            self._set_timer()

    # Time

    def _now(self) -> float:
        """Seconds that passed outside pauses."""
        return (time.monotonic() if self._held is None else self._held) - self._paused

    def _left(self, asked: _Asked) -> float | None:
        seconds = asked.question.seconds
        return None if seconds is None else max(0.0, max(asked.since, self._heard) + seconds - self._now())

    def _set_timer(self) -> None:
        """Wakes when the next question's time is over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = [left for asked in self._asked.values() if (left := self._left(asked)) is not None]
        if left and self._held is None:
            self._timer = asyncio.get_running_loop().call_later(min(left), self._expire)

    def _expire(self) -> None:
        for id in [id for id, asked in self._asked.items() if self._left(asked) == 0.0]:
            self._end(id, None)
        self._set_timer()

    # Opening and ending

    def _go_on(self) -> None:
        """Opens the next ones there is room for."""
        for asked in list(self._asked.values())[:OPEN]:
            if not asked.is_open:
                asked.is_open = True
                self._tell(HumanAsked(asked.question))
        self._set_timer()

    def _end(self, id: int, text: str | None) -> None:
        asked = self._asked.pop(id)
        if asked.is_open:
            self._tell(HumanAnswered(asked.question, text))
        if not asked.answer.done():
            asked.answer.set_result(text)
        self._go_on()

    def _if_withdrawn(self, id: int, answer: asyncio.Future[str | None]) -> None:
        if answer.cancelled() and id in self._asked:
            self._end(id, None)


def _check(text: str, choices: Sequence[str], about: Sequence[str], seconds: float | None) -> None:
    if not text.strip():
        raise ValueError("a question to a person wants a text")
    for name, texts in (("choices", choices), ("about", about)):
        if isinstance(texts, str):
            raise ValueError(f"{name} wants texts in a list, not {texts!r}")
    if len(set(choices)) < len(choices) or not all(choice.strip() for choice in choices):
        raise ValueError(f"choices wants different texts, none of them empty, not {list(choices)!r}")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds is {seconds}; it has to be above 0, or None for no limit")
