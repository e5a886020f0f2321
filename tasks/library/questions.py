"""A question on a passage: how it is written, when it is sound, and when it is answered.

What a proposer writes is judged by rule, before anyone is asked: whatever a model can be talked into, a rule can't.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine import Message, quoted, read_element, read_examples
from tasks.library import QUESTIONS

FORMAT = """Write one short question about a fact in the passage, and its answer. The answer is one to five words \
that stand in the passage exactly so. Whoever answers does not see the passage: the question must make sense \
alone, and must not contain the answer.
Write exactly this:
<question>the question</question>
<answer>the answer</answer>"""

FORMAT_OF_DRAWN = """Write one short question about the passage whose answer is the one given. Whoever answers \
does not see the passage: the question must make sense alone, and must not contain the answer.
Write exactly this: <question>the question</question>"""

WORKED = [
    (
        "Mercury is the only metal that is liquid at room temperature. It was called quicksilver once.",
        "Which metal is liquid at room temperature?",
        "mercury",
    ),
    (
        "The Danube rises in the Black Forest. Vienna, Budapest and Belgrade lie on it.",
        "On which river does Vienna lie?",
        "Danube",
    ),
    (
        "Roald Amundsen reached the South Pole on 14 December 1911, five weeks before Robert Scott.",
        "In which year did Amundsen reach the South Pole?",
        "1911",
    ),
]
"""What models are shown, as turns of a conversation, before they are asked: a small one follows an example rather
than an instruction. Copied, they are unsound: what is asked and answered doesn't stand in the passage."""

MOST_WORDS, LONGEST_ANSWER = 8, 60
LONGEST_QUESTION = 300
ARTICLES = {"a", "an", "the"}
WORD = re.compile(r"(?<!\w)-?\d+(?:\.\d+)?|\w+")
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
FACT = re.compile(r"(?<!\w)(?:\d[\d.,]*\d|\d)(?!\w)|(?<=[^.!?:] )[A-Z]\w+(?: [A-Z]\w+)*")
"""A number, or a name within a sentence."""
POINTS_AT_IT = re.compile(
    r"\b(?:this|the|given|above|following) (?:passage|text|excerpt|paragraph|document|sentence)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    answer: str


def words(text: str) -> list[str]:
    """A text as it is compared: small letters, no punctuation, no articles; numbers keep sign and point."""
    plain = THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold().replace("−", "-"))
    return [word for word in WORD.findall(plain) if word not in ARTICLES]


def answers(reply: str, accepted: list[str]) -> bool:
    """Whether the one `<answer>` of a reply is one of those accepted, word by word."""
    said = words(read_element(reply, "answer") or "")
    return bool(said) and any(said == words(answer) for answer in accepted)


def occurs(part: str, whole: str) -> bool:
    """Whether the words of one text stand in another, side by side and in their order."""
    return f" {' '.join(words(part))} " in f" {' '.join(words(whole))} "


RULES: list[tuple[str, Callable[[Question, str], bool]]] = [
    ("the question ends in a question mark", lambda q, _: q.text.endswith("?")),
    ("the question has at least three words", lambda q, _: len(words(q.text)) >= 3),
    (f"the question has up to {LONGEST_QUESTION} characters", lambda q, _: len(q.text) <= LONGEST_QUESTION),
    ("the answer has a word", lambda q, _: bool(words(q.answer))),
    (
        f"the answer has up to {MOST_WORDS} words and {LONGEST_ANSWER} characters",
        lambda q, _: len(words(q.answer)) <= MOST_WORDS and len(q.answer) <= LONGEST_ANSWER,
    ),
    ("neither has angle brackets", lambda q, _: not re.search("[<>]", q.text + q.answer)),
    ("the answer stands in the passage", lambda q, passage: occurs(q.answer, passage)),
    ("the answer isn't in the question", lambda q, _: not occurs(q.answer, q.text)),
    ("the question doesn't point at the passage", lambda q, _: not POINTS_AT_IT.search(q.text)),
]
"""What a sound question has, each with how it is told from (question, passage)."""


def read_question(reply: str) -> Question | None:
    """The question and the answer of a reply; None if there isn't exactly one of each."""
    text, answer = read_element(reply, "question"), read_element(reply, "answer")
    return Question(" ".join(text.split()), " ".join(answer.split())) if text and answer else None


def facts(passage: str) -> list[str]:
    """The numbers and names of a passage, each once."""
    return [fact for fact in dict.fromkeys(FACT.findall(passage)) if len(words(fact)) <= MOST_WORDS]


def drawn_answer(passage: str, rng: random.Random) -> str:
    """A number or name of a passage to ask for; "" where there is none."""
    found = facts(passage)
    return rng.choice(found) if found else ""


def choices(accepted: list[str], others: list[str], most: int, rng: random.Random) -> list[str]:
    """The first accepted answer among up to `most - 1` others, in any order. None of these holds an answer that
    counts, nor a part of one."""
    wrong = [other for other in others if not any(occurs(other, a) or occurs(a, other) for a in accepted)]
    chosen = [accepted[0], *rng.sample(wrong, min(most - 1, len(wrong)))]
    return rng.sample(chosen, len(chosen))


def tagged(answer: str) -> str:
    """An answer as it is given."""
    return f"<answer>{answer}</answer>"


def to_propose(passage: str, answer: str) -> list[Message]:
    """How a proposer is asked for a question on a passage, and for its answer too unless one was drawn."""
    shown: list[Message] = []
    for text, question, its_answer in WORKED:
        given = "" if answer else f"\n{tagged(its_answer)}"
        shown += turns(_asked(text, answer and its_answer), f"<question>{question}</question>{given}")
    return [*shown, {"role": "user", "content": _asked(passage, answer)}]


def _asked(passage: str, answer: str) -> str:
    shown = quoted("The passage", passage, len(passage))
    return f"{shown}\n\nThe answer: {answer}" if answer else shown


def turns(asked: str, said: str) -> list[Message]:
    """A worked example: what was asked, and what was said to it."""
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]


def read_proposal(reply: str, answer: str) -> Question | None:
    """The question proposed, with the answer that was drawn, or else its own."""
    text = read_element(reply, "question")
    return Question(" ".join(text.split()), answer) if text and answer else read_question(reply)


def fault(question: Question | None, passage: str) -> str | None:
    """The first rule that a question breaks, or None."""
    if question is None:
        return "there is one <question> and one <answer>"
    return next((rule for rule, holds in RULES if not holds(question, passage)), None)


def exam(file: str = "") -> list[dict[str, Any]]:
    """Questions to measure with, in a fixed order of chance: those of the library, or of a file with the columns
    `question` and `answer`, the latter a text or a list of all that count. Raises `ValueError`."""
    if file:
        examples = [(row.prompt, row.answer) for row in read_examples(file, prompt="question")]
    else:
        examples = [(question, accepted) for _, question, accepted in QUESTIONS]
    random.Random("exam").shuffle(examples)
    several = [(question, answer if isinstance(answer, list) else [answer]) for question, answer in examples]
    return [
        {"question": question, "answers": [str(answer) for answer in accepted]} for question, accepted in several
    ]
