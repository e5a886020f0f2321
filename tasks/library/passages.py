"""What tasks on texts are given: passages to ask about, and questions to measure with."""

from __future__ import annotations

import math
import random
from typing import Any, Literal

from engine import Arena, Documents, EpisodeRequest, Passage, TaskError
from tasks.library import TEXTS
from tasks.library.questions import drawn_answer, exam, facts

AnswerOf = Literal["written", "drawn"]
"""Whose answer is asked for: the proposer's own, or a name or number that was drawn from the passage."""
TRIES = 100
"""Passages drawn until one has facts enough. A text may have none, so that at last any will do."""


class Passages:
    """The passages of a folder, and the exam. `facts`: how many a passage has to have to be asked about, where it
    can be helped."""

    def __init__(self, task: str, folder: str, questions: str, *, words: int, answer: AnswerOf, facts: int = 1):
        self.task, self.answer, self.facts = task, answer, facts
        try:
            self.documents = Documents(folder or TEXTS, words=words)
        except ValueError as error:
            raise TaskError(f"{task}: option 'folder': {error}") from error
        try:
            self.exam = exam(questions)
        except ValueError as error:
            raise TaskError(f"{task}: option 'questions': {error}") from error

    def requests(self, kind: str, arena: Arena, n: int, samples: int) -> list[EpisodeRequest]:
        """Each passage `samples` times; passages that come once are compared with each other."""
        rng = random.Random(f"{arena.seed}:{self.task}:{arena.played}")
        group = "passages" if samples == 1 else None
        asked = [self.artifact(self._draw(rng), rng) for _ in range(math.ceil(n / samples))]
        return [EpisodeRequest(kind, artifact, group=group) for artifact in asked for _ in range(samples)][:n]

    def artifact(self, passage: Passage, rng: random.Random) -> dict[str, Any]:
        """What a proposer is given; `answer` only where one was drawn."""
        drawn = drawn_answer(passage.text, rng) if self.answer == "drawn" else ""
        given = {"passage": passage.id, "title": passage.title, "text": passage.text}
        return given | ({"answer": drawn} if drawn else {})

    def _draw(self, rng: random.Random) -> Passage:
        passage = self.documents.sample(rng)
        for _ in range(TRIES if self.answer == "drawn" else 0):
            if len(facts(passage.text)) >= self.facts:
                break
            passage = self.documents.sample(rng)
        return passage
