"""Grouping prompts: nothing lost, never dearer than one rectangle, and a shared beginning is found."""

from __future__ import annotations

import numpy as np

from engine.inference.prefixes import grouped as grouped_at

FORWARD_COST = 64.0


def grouped(prompts, known=None):
    return grouped_at(prompts, FORWARD_COST, known)


def cost(groups) -> int:
    return sum(group.tokens for group in groups) + FORWARD_COST * (len(groups) - 1)


def rectangle(prompts) -> int:
    return len(prompts) * max(map(len, prompts))


def test_random_prompts_come_back_once_each_at_no_more_than_the_plain_cost():
    rng = np.random.default_rng(0)
    for _ in range(200):
        systems = [tuple(rng.integers(0, 3, rng.integers(0, 60)).tolist()) for _ in range(3)]
        prompts = {
            systems[rng.integers(3)] + tuple(rng.integers(0, 3, rng.integers(1, 30)).tolist())
            for _ in range(rng.integers(1, 40))
        }
        groups = grouped(list(prompts))
        assert sorted(prompt for group in groups for prompt in group.prompts) == sorted(prompts)
        assert cost(groups) <= rectangle(prompts)
        for group in groups:
            beginnings = {prompt[: group.shared] for prompt in group.prompts}
            assert len(beginnings) == 1
            assert all(len(prompt) > group.shared for prompt in group.prompts)


def test_two_roles_with_long_system_prompts_become_two_groups_that_share_theirs():
    first, second = tuple(range(200)), (7, *range(300, 500))
    prompts = [(*role, 900 + i, 901) for role in (first, second) for i in range(20)]
    assert sorted((group.shared, len(group.prompts)) for group in grouped(prompts)) == [(200, 20), (201, 20)]


def test_a_prompt_that_begins_another_keeps_its_last_token_to_compute():
    short = tuple(range(100))
    prompts = [short, *((*short, i) for i in range(5))]
    assert all(group.shared < 100 for group in grouped(prompts) if short in group.prompts)


def test_what_is_too_little_to_be_worth_a_forward_pass_isnt_shared():
    assert [group.shared for group in grouped([(1, 2), (1, 3), (1, 4)])] == [0]
