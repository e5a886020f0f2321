"""What a model might write at its worst: some hundreds of strings, the same ones every time."""

from __future__ import annotations

import random

CHOSEN = [
    "",
    " ",
    "[/think]",
    "[bold]x[/bold] [link=file:///etc/passwd]y[/link] [@click=app.quit]z[/]",
    "[$accent on red]a[/] [not closed",
    "\\[escaped] [[double]] ]",
    "\x1b]52;c;aGFja2Vk\x07",
    "\x1b[2J\x1b[H\x1b[?1049l\x1bc",
    "\x9b2J\x90q\x9c\x84",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x00\x01\x02\x07\x08\x0b\x0c\x0e\x7f",
    "carriage\rreturn\r\nand\nnewline\x85next\u2028line\u2029paragraph",
    "\u202eright to left\u202c \u2066isolate\u2069 \u200f\u200e",
    "zero\u200bwidth\u200d\u2060\ufeff\u00ad",
    "\ud800 lone \udfff halves \udc80",
    "👨‍👩‍👧‍👦 👩🏽‍🚀 🏳️‍🌈 ❤️ 🇫🇷🇯🇵 ☎️ 1️⃣",
    "你好世界" * 30,
    "e" + "\u0301\u0327\u0489" * 200,
    "\U000e0041\U000e0042\ufe0f\U000e0100",
    "\u115f\u1160\u3164\uffa0\u2800\u00a0\u3000",
    "\ufdfd\u12031\U0001242b",
    "\t\ttabs\tand\ttabs",
    "a" * 5000,
    "\n" * 5000,
    "x\n" * 800,
    "a b " * 2000,
    "\x1b" * 500,
    "[" * 300 + "]" * 300,
    "$primary %s {x} {{y}} ${z} %(a)s",
    "\ufffd\ufffe\uffff\U0010ffff\ue000",
]


def random_strings(many: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    pools: list[list[int]] = [
        list(range(0x20)) + list(range(0x7F, 0xA0)),
        list(range(0x20, 0x7F)),
        [ord(letter) for letter in "[]/\\=@$#:;\"'"],
        list(range(0x300, 0x370)),
        [*range(0x200B, 0x2070), 0xFEFF, 0x061C, 0x180E],
        list(range(0xD800, 0xE000)),
        list(range(0x1F1E6, 0x1F200)) + list(range(0x1F3FB, 0x1F400)) + list(range(0x1F600, 0x1F650)),
        list(range(0x4E00, 0x4F00)) + list(range(0x1100, 0x1200)),
        list(range(0xFE00, 0xFE10)),
    ]
    strings = []
    for _ in range(many):
        mixed = rng.sample(pools, rng.randint(1, 4))
        strings.append("".join(chr(rng.choice(rng.choice(mixed))) for _ in range(rng.randint(1, 60))))
    return strings


SENTENCES = [
    "\x1b[5;8;20mblink\x1b[0m",
    "\x1b[999;999Hfar away",
    "\x1b[3J\x1b[?47h\x1b[?1000;9001h",
    "\x1b]0;a title\x07 \x1b]2;another\x1b\\ \x1b]9;a notice\x07 \x1b]777;notify;a;b\x07",
    "\x1bP+q544e\x1b\\ \x1b_Ga=T;AAAA\x1b\\ \x1b^private\x1b\\ \x1bXstring\x1b\\",
    "\x1b[6n\x1b[c\x1b[>c\x1b[?u \x1b[21t",
    "\x9d52;c;aGFja2Vk\x9c \x9b31m \x8e\x8f",
    "\x1b]1337;File=inline=1:AAAA\x07\x1b]8;;file:///etc/passwd\x07here\x1b]8;;\x07",
    "\x1b#8 \x1b(0 lines \x1b(B \x1b= \x1b> \x1b7 \x1b8 \x1bM \x0e\x0f",
    "</s><|im_end|>[INST] [/think] <think>",
]
"""Every kind of sequence a terminal obeys, with numbers that Textual never writes."""

LONG_LINE = ("\x1b]52;c;aGFja2Vk\x07" + "long " * 18) * 10_000
"""A megabyte without an end of line."""

STRINGS = CHOSEN + SENTENCES + random_strings(220, seed=7)


def many(count: int = 10_000, seed: int = 11) -> list[str]:
    """The chosen ones, the long line, and others mixed with sequences until there are `count`."""
    rng = random.Random(seed)
    base = [text for text in CHOSEN if len(text) < 400] + SENTENCES
    mixed = random_strings(count - len(base) - 1, seed)
    strings = [rng.choice(base) + text if index % 3 == 0 else text for index, text in enumerate(mixed)]
    return [*base, *strings, LONG_LINE]
