"""Stop strings: found in the bytes of tokens wherever these are cut, and left out of the text."""

from __future__ import annotations

import random

from engine.inference.stops import StopWatch, before_stop


def test_a_stop_string_is_found_with_its_last_byte_however_the_text_is_cut():
    rng = random.Random(0)
    for _ in range(500):
        text = "".join(rng.choice("abß\n") for _ in range(30)).encode()
        stops = ["".join(rng.choice("abß\n") for _ in range(rng.randint(1, 4))).encode() for _ in range(2)]
        watch, at, stopped = StopWatch(stops), 0, None
        while at < len(text) and stopped is None:
            size = rng.randint(0, 3)
            if watch.completes(text[at : at + size]):
                stopped = at + size
            at += size
        ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
        if stopped is None:
            assert not ends
        else:
            assert stopped - 3 < min(ends) <= stopped


def test_the_text_ends_before_the_first_stop_string():
    assert before_stop("one\nUser: two", ["User:", "\n"]) == "one"
    assert before_stop("one two", ["three"]) == "one two"
    assert before_stop("stop", ["stop"]) == ""
