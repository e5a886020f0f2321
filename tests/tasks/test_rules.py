"""Rules against OpenSpiel, over random games; where OpenSpiel has no such game, against a table by hand."""

from __future__ import annotations

import random

import pyspiel
import pytest
from open_spiel.python.algorithms import exploitability
from open_spiel.python.policy import TabularPolicy

from engine.matches import nash_conv, perfect_player
from tasks.kuhn_poker import CARDS, KuhnPoker
from tasks.nim import Nim
from tasks.tictactoe import TicTacToe

GAMES = 10_000


def test_tictactoe_plays_like_openspiel():
    rng, ours = random.Random(0), TicTacToe()
    oracle = pyspiel.load_game("tic_tac_toe")
    for _ in range(GAMES):
        theirs, state = oracle.new_initial_state(), ours.initial(rng)
        while not theirs.is_terminal():
            assert ours.returns(state) is None
            assert ours.seat(state) == theirs.current_player()
            assert ours.legal(state) == [f"[{action}]" for action in theirs.legal_actions()]
            action = rng.choice(theirs.legal_actions())
            theirs.apply_action(action)
            state = ours.play(state, f"[{action}]")
        assert ours.returns(state) == tuple(theirs.returns())


KUHN_ACTION = {"[check]": 0, "[fold]": 0, "[bet]": 1, "[call]": 1}


def openspiel_kuhn(cards: str):
    state = pyspiel.load_game("kuhn_poker").new_initial_state()
    for card in cards:
        state.apply_action(CARDS.index(card))
    return state


def test_kuhn_poker_plays_like_openspiel():
    rng, ours = random.Random(0), KuhnPoker()
    for _ in range(GAMES):
        state = ours.initial(rng)
        theirs = openspiel_kuhn(state[0])
        while not theirs.is_terminal():
            assert ours.returns(state) is None
            assert ours.seat(state) == theirs.current_player()
            assert [KUHN_ACTION[move] for move in ours.legal(state)] == theirs.legal_actions()
            move = rng.choice(ours.legal(state))
            theirs.apply_action(KUHN_ACTION[move])
            state = ours.play(state, move)
        assert ours.returns(state) == tuple(theirs.returns())


@pytest.mark.parametrize("seed", range(5))
def test_nash_conv_of_kuhn_poker_is_openspiels(seed: int):
    rng, ours = random.Random(seed), KuhnPoker()
    oracle_game = pyspiel.load_game("kuhn_poker")
    oracle_policy = TabularPolicy(oracle_game)
    table: dict[str, dict[str, float]] = {}
    for deal in ours.deals():
        for history in ("", "c", "b", "cb"):
            state = (deal[0], history)
            shown = ours.observe(state, ours.seat(state))
            if shown in table:
                continue
            aggressive = rng.random()
            table[shown] = dict(zip(ours.legal(state), (1 - aggressive, aggressive), strict=True))
            theirs = openspiel_kuhn(deal[0])
            for letter in history:
                theirs.apply_action(0 if letter == "c" else 1)
            oracle_policy.action_probability_array[oracle_policy.state_index(theirs)] = [1 - aggressive, aggressive]
    found = nash_conv(ours, lambda state: table[ours.observe(state, ours.seat(state))])
    assert found == pytest.approx(exploitability.nash_conv(oracle_game, oracle_policy), abs=1e-9)


def test_uniform_random_kuhn_poker_is_eleven_twelfths_from_equilibrium():
    ours = KuhnPoker()
    assert nash_conv(ours, lambda state: dict.fromkeys(ours.legal(state), 0.5)) == pytest.approx(11 / 12)


@pytest.mark.parametrize("bluff", [0.0, 0.2, 1 / 3])
def test_the_habits_of_kuhns_equilibria_are_bluffs_up_to_a_third_and_calls_a_third_of_the_time(bluff: float):
    """The family of equilibria Kuhn gave (1950), by the share of jacks that are bet first."""
    active = {
        **{"J --": bluff, "Q --": 0.0, "K --": 3 * bluff, "J cb": 0.0, "Q cb": bluff + 1 / 3, "K cb": 1.0},
        **{"J c-": 1 / 3, "Q c-": 0.0, "K c-": 1.0, "J b-": 0.0, "Q b-": 1 / 3, "K b-": 1.0},
    }
    ours = KuhnPoker()

    def policy(state):
        chips_in = active[ours.observe(state, ours.seat(state))]
        return dict(zip(ours.legal(state), (1 - chips_in, chips_in), strict=True))

    assert nash_conv(ours, policy) == pytest.approx(0.0, abs=1e-12)
    assert ours.habits(policy) == {"jack_bets": bluff, "queen_calls": 1 / 3}


def test_a_kuhn_player_is_shown_its_own_card_only():
    ours = KuhnPoker()
    for deal in ours.deals():
        for history in ("", "c", "b", "cb"):
            for seat in (0, 1):
                for shown in (ours.observe((deal[0], history), seat), ours.describe((deal[0], history), seat)):
                    assert deal[0][1 - seat] not in shown.split(" Moves:")[0].replace("Your", "").replace(
                        "card", ""
                    )


@pytest.mark.parametrize(
    ("sticks", "moves", "returns"),
    [
        ((1, 0), "1", (1.0, -1.0)),
        ((3, 0), "3", (1.0, -1.0)),
        ((3, 0), "12", (-1.0, 1.0)),
        ((8, 0), "3311", (-1.0, 1.0)),
        ((5, 1), "131", (-1.0, 1.0)),
    ],
)
def test_whoever_takes_the_last_stick_wins(sticks, moves, returns):
    ours, state = Nim(), sticks
    for move in moves:
        assert ours.returns(state) is None
        assert f"[{move}]" in ours.legal(state)
        state = ours.play(state, f"[{move}]")
    assert ours.returns(state) == returns


def test_nobody_may_take_more_sticks_than_there_are():
    assert Nim().legal((2, 0)) == ["[1]", "[2]"]


def test_the_perfect_nim_player_leaves_multiples_of_four():
    ours, bot, rng = Nim(), perfect_player(Nim()), random.Random(0)
    for sticks in range(1, 21):
        move = bot(ours, (sticks, 0), rng)
        if sticks % 4:
            assert int(move[1]) == sticks % 4


def test_the_perfect_tictactoe_player_never_loses():
    ours, rng = TicTacToe(), random.Random(0)
    bot = perfect_player(ours)
    for game in range(300):
        mine, state = game % 2, ours.initial(rng)
        while (returns := ours.returns(state)) is None:
            move = bot(ours, state, rng) if ours.seat(state) == mine else rng.choice(ours.legal(state))
            state = ours.play(state, move)
        assert returns[mine] >= 0
