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

PASSAGE = "Mercury is the only metal that is liquid at room temperature. It was called quicksilver once."
QUESTION, ANSWER = "Which metal is liquid at room temperature?", "<answer>mercury</answer>"
"""What models are shown, as turns of a conversation, before they are asked: a small one follows an example rather
than an instruction. Copied, it is unsound: what is asked and answered doesn't stand in the passage."""
EXAMPLE: list[Message] = [
    {"role": "user", "content": quoted("The passage", PASSAGE)},
    {"role": "assistant", "content": f"<question>{QUESTION}</question>\n{ANSWER}"},
]

EXAMPLE_OF_DRAWN: list[Message] = [
    {"role": "user", "content": f"{quoted('The passage', PASSAGE)}\n\nThe answer: mercury"},
    {"role": "assistant", "content": f"<question>{QUESTION}</question>"},
]

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


def drawn_answer(passage: str, rng: random.Random) -> str:
    """A number or name of a passage to ask for; "" where there is none."""
    facts = [fact for fact in dict.fromkeys(FACT.findall(passage)) if len(words(fact)) <= MOST_WORDS]
    return rng.choice(facts) if facts else ""


def to_propose(passage: str, answer: str) -> list[Message]:
    """How a proposer is asked for a question on a passage, and for its answer too unless one was drawn."""
    shown = quoted("The passage", passage, len(passage))
    example, prompt = (EXAMPLE_OF_DRAWN, f"{shown}\n\nThe answer: {answer}") if answer else (EXAMPLE, shown)
    return [*example, {"role": "user", "content": prompt}]


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
