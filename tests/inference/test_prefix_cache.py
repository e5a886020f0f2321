"""The book-keeping of beginnings against a plain list of texts: right, bounded, and the least recently used go."""

from __future__ import annotations

import numpy as np

from engine.inference import prefix_cache as module
from engine.inference.prefix_cache import BLOCK, WORTH, PrefixCache


def text(rng: np.random.Generator, size: int) -> list[int]:
    return rng.integers(0, 50, size).tolist()


def keep(cache: PrefixCache, player: str, texts, size: int = 10, version: int = 1):
    entries = [cache.begin(player, version, tokens[:-5]) for tokens in texts]
    assert None not in entries
    kept = [entry for entry, tokens in zip(entries, texts, strict=True) if cache.extend(entry, tokens)]
    if kept:
        cache.keep(kept, object(), size)
    return kept


def common(first, second) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(map(len, (first, second)))
    )


def test_what_is_found_is_a_beginning_of_the_prompt_and_as_long_as_any_but_for_a_block():
    rng = np.random.default_rng(0)
    cache = PrefixCache(1 << 30)
    stems = [text(rng, 40) for _ in range(3)]
    kept: dict[str, list[list[int]]] = {"a": [], "b": []}
    for _ in range(150):
        player = "ab"[rng.integers(2)]
        known = kept[player]
        stem = known[rng.integers(len(known))] if known and rng.random() < 0.5 else stems[rng.integers(3)]
        prompt = stem[: rng.integers(1, len(stem) + 1)] + text(rng, int(rng.integers(WORTH + 5, 90)))
        best = max((min(common(prompt, other), len(prompt) - 1) for other in known), default=0)
        hit = cache.find(player, 1, prompt)
        if hit is None:
            assert best < BLOCK
        else:
            assert hit.entry.player == player
            assert hit.entry.tokens[: hit.length].tolist() == prompt[: hit.length]
            assert best - BLOCK < hit.length <= len(prompt) - 1
        if keep(cache, player, [prompt]):
            known.append(prompt)


def test_no_other_player_or_version_finds_it():
    cache = PrefixCache(100)
    tokens = text(np.random.default_rng(1), 100)
    keep(cache, "a", [tokens], version=3)
    assert cache.find("a", 3, tokens) is not None
    assert cache.find("a", 4, tokens) is None
    assert cache.find("b", 3, tokens) is None


def test_a_hash_is_never_believed(monkeypatch):
    monkeypatch.setattr(module, "hash", lambda value: 7, raising=False)  # all blocks collide
    rng = np.random.default_rng(2)
    cache = PrefixCache(100)
    first, second = text(rng, 100), text(rng, 100)
    keep(cache, "a", [first])
    assert cache.find("a", 1, second) is None
    hit = cache.find("a", 1, [*first[:70], *second[70:]])
    assert hit is not None
    assert hit.length in (70, 71)


def test_memory_is_bounded_and_what_was_used_last_goes_last():
    rng = np.random.default_rng(3)
    cache = PrefixCache(30)
    texts = [text(rng, 100) for _ in range(5)]
    for tokens in texts[:3]:
        keep(cache, "a", [tokens])
    hit = cache.find("a", 1, texts[0])
    assert hit is not None
    cache.use(hit)
    for tokens in texts[3:]:
        keep(cache, "a", [tokens])
        assert cache.bytes == 30
    found = [cache.find("a", 1, tokens) is not None for tokens in texts]
    assert found == [True, False, False, True, True]


def test_a_snapshot_goes_when_its_last_entry_is_continued_elsewhere():
    rng = np.random.default_rng(4)
    cache = PrefixCache(100)
    first, second = text(rng, 100), text(rng, 100)
    keep(cache, "a", [first, second])
    for tokens, left in ((first, 20), (second, 20)):
        longer = tokens + text(rng, 40)
        entry = cache.begin("a", 1, longer, cache.find("a", 1, longer))
        assert entry is not None
        assert cache.extend(entry, longer)
        cache.keep([entry], object(), 10)
        assert cache.bytes == left
        assert len(cache) == 2
        hit = cache.find("a", 1, [*longer, 1])
        assert hit is not None
        assert hit.entry is entry


def test_what_is_known_already_isnt_kept_twice():
    rng = np.random.default_rng(5)
    cache = PrefixCache(100)
    tokens = text(rng, 100)
    assert len(keep(cache, "a", [tokens, list(tokens)])) == 1
    assert keep(cache, "a", [tokens]) == []
    assert (cache.bytes, len(cache)) == (10, 1)


def test_a_players_entries_go_at_once_with_those_in_flight():
    rng = np.random.default_rng(6)
    cache = PrefixCache(100)
    texts = [text(rng, 100) for _ in range(3)]
    keep(cache, "a", texts[:1])
    keep(cache, "b", texts[1:2])
    cache.begin("a", 1, texts[2])
    cache.drop_player("a")
    assert [cache.find(player, 1, tokens) is not None for player, tokens in zip("aba", texts, strict=True)] == [
        False,
        True,
        False,
    ]
    assert (cache.bytes, len(cache)) == (10, 1)


def test_rows_in_flight_are_found_until_they_leave():
    rng = np.random.default_rng(7)
    cache = PrefixCache(0)
    tokens = text(rng, 100)
    entry = cache.begin("a", 1, tokens)
    assert entry is not None
    hit = cache.find("a", 1, tokens)
    assert hit is not None
    assert (hit.entry, hit.length) == (entry, 99)
    cache.drop(entry)
    assert cache.find("a", 1, tokens) is None
    assert len(cache) == 0


def test_random_use_leaves_nothing_behind():
    rng = np.random.default_rng(8)
    cache = PrefixCache(60)
    flying = []
    for _ in range(400):
        match rng.integers(4):
            case 0 | 1:
                tokens = text(rng, 20) * 5
                hit = cache.find("a", 1, tokens)
                if hit is not None:
                    cache.use(hit)
                flying.append((cache.begin("a", 1, tokens, hit), tokens))
            case 2 if flying:
                leaving, flying = flying[:3], flying[3:]
                kept = [entry for entry, tokens in leaving if cache.extend(entry, [*tokens, *text(rng, 9)])]
                if kept:
                    cache.keep(kept, object(), 10 * len(kept))
            case 3 if rng.random() < 0.05:
                cache.drop_player("a")
                flying = []
        assert 0 <= cache.bytes <= 60
    cache.clear()
    for entry, _ in flying:
        cache.drop(entry)
    assert (cache.bytes, len(cache), cache._blocks, cache._snapshots) == (0, 0, {}, {})
