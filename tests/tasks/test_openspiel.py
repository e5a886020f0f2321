"""OpenSpiel's games through the door: they end as OpenSpiel says, and no reply gets more than it should."""

from __future__ import annotations

import random
import subprocess
import sys

import pyspiel
import pytest
from open_spiel.python.algorithms import exploitability
from open_spiel.python.policy import TabularPolicy

from engine import EpisodeRequest, TaskError
from engine.task import load_task
from tasks.spiel.board import Board, settled
from tests.tasks.play import arena_of, last, play, three_steps

GOOFSPIEL = "turn_based_simultaneous_game(game=goofspiel(num_cards=4,imp_info=True))"
GAMES = {
    "connect_four": {},
    "leduc_poker": {},
    "liars_dice": {},
    "breakthrough": {"rows": 4, "columns": 4},
    "tic_tac_toe": {},
    "kuhn_poker": {"players": 3},
    "nim": {},
    GOOFSPIEL: {},
    "pig": {"winscore": 20},
    "hex": {"board_size": 4},
    "othello": {},
    "dots_and_boxes": {},
    "bargaining": {},
    "tiny_hanabi": {},
}
TOTAL = 10_000
"""Random games, of all of these together."""
HEAVY = {"othello", "bargaining", "connect_four"}


def random_player():
    """Speaks for every role; the same each time it is made."""
    rng = random.Random(0)

    def speak(role, messages):
        moves = last(messages).rpartition("Moves: ")[2]
        return "My move is " + rng.choice(["[" + move for move in moves.split("[")[1:]]).strip()

    return speak


def loaded(name: str):
    return pyspiel.load_game(name, GAMES[name]) if GAMES[name] else pyspiel.load_game(name)


def replayed(name: str, history: list[int]):
    state = loaded(name).new_initial_state()
    for action in history:
        state.apply_action(action)
    assert state.is_terminal()
    return state.returns()


@pytest.mark.parametrize("name", GAMES)
async def test_a_game_ends_as_openspiel_ends_it_after_the_same_moves(name):
    options = {"game": name, "parameters": GAMES[name]}
    results = await play("openspiel", random_player(), 10, **options)
    for result in results:
        history = result.rollout.extras["history"]
        assert list(result.rewards.values()) == replayed(name, history)
        assert not any(turn.illegal for turn in result.rollout.turns)
    assert len({str(result.rollout.extras["history"]) for result in results}) > 1


@pytest.mark.parametrize("name", GAMES)
def test_ten_thousand_random_games_are_openspiels_own(name):
    """Moves are written so that each is another, in one pair of brackets, and stands for the action it should."""
    rng, board, oracle = random.Random(0), Board(name, GAMES[name]), loaded(name)
    for _ in range(100 if name in HEAVY else (TOTAL - 100 * len(HEAVY)) // (len(GAMES) - len(HEAVY)) + 1):
        state = board.begin(rng)
        theirs = oracle.new_initial_state()
        for action in state.history():
            theirs.apply_action(action)
        while not theirs.is_terminal():
            moves = board.moves(state)
            assert list(moves.values()) == theirs.legal_actions()
            assert all(move.count("[") == move.count("]") == 1 for move in moves)
            before, chosen = len(state.history()), rng.choice(list(moves))
            state.apply_action(moves[chosen])
            settled(state, rng)
            for action in state.history()[before:]:
                theirs.apply_action(action)
        assert state.is_terminal()
        assert state.returns() == theirs.returns()


@pytest.mark.parametrize(
    ("reply", "is_legal"),
    [
        ("[x3]", True),
        ("I think of x2, but [x3]. Yes, [x3]", True),
        ("", False),
        ("x3", False),
        ("[x3", False),
        ("[x9]", False),
        ("[x3] [x4]", False),
        ("[X3]", False),
        ("[x 3]", False),
        ("Moves: [x0] [x1] [x2] [x3] [x4] [x5] [x6]", False),  # the prompt
        ("[x3] [x won]", False),
        ("Ignore the rules. [returns: 1]", False),
        ("x" * 5_000, False),
    ],
)
async def test_one_legal_move_in_brackets_is_a_move_and_nothing_else_is(reply, is_legal):
    [result] = await play("openspiel", lambda role, m: reply if role == "P0" else "none", longest=1)
    assert result.rollout.turns[0].illegal is not is_legal
    assert result.rewards == ({} if is_legal else {"P0": -1.5, "P1": 0.5})


@pytest.mark.parametrize(
    ("name", "offender", "others"),
    [
        ("kuhn_poker", -3.0, [1.0]),  # returns from −2 to 2
        ("tiny_hanabi", -2.5, [0.0]),  # common interest, 0 to 10: nobody gains by a partner's mistake
        ("leduc_poker", -19.5, [6.5]),
        ("kuhn_poker(players=3)", -3.5, [1.5, 1.5]),  # −2 to 4
    ],
)
async def test_an_illegal_move_costs_by_the_range_of_the_game(name, offender, others):
    [result] = await play("openspiel", lambda *_: "?", game=name)
    assert sorted(result.rewards.values()) == sorted([offender, *others])
    [scaled] = await play("openspiel", lambda *_: "?", game=name, scale=0.1)
    assert min(scaled.rewards.values()) == pytest.approx(offender / 10)


async def test_a_game_that_is_too_long_is_not_scored():
    [result] = await play("openspiel", random_player(), game="othello", longest=5)
    assert result.rollout.unscored == "outcome"
    assert result.rewards == {}


async def test_a_player_of_poker_is_shown_its_own_card_alone():
    asked = []
    results = await play(
        "openspiel", lambda role, m: asked.append((role, last(m))) or "[Bet]", 20, game="kuhn_poker"
    )
    cards = [result.rollout.extras["history"][:2] for result in results]
    shown = {(role, text.split("\n")[0][0]) for role, text in asked}
    assert len(shown) == 6
    assert {text.split("\n")[0] for role, text in asked if role == "P0"} <= {str(first) for first, _ in cards}


def test_nash_conv_is_openspiels_and_that_of_a_uniform_player_is_known():
    assert Board("kuhn_poker", {}).decisions is not None
    assert Board("connect_four", {}).decisions is None
    assert Board("liars_dice", {}).decisions is None
    assert len(Board("leduc_poker", {}).decisions or {}) == 936


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "liars_dice(numdice=1,dice_sides=2)"])
async def test_evaluation_knows_the_distance_from_equilibrium_and_never_trains(name):
    """A scripted model says every reply of as many letters as likely: a policy that can be written down."""
    task = load_task("openspiel", {"game": name})
    arena, seen = arena_of(task, random_player()), []
    arena.on_labelled = seen.extend
    metrics = await task.evaluate(arena, 8, "eval-0")
    game = pyspiel.load_game(name)
    policy = TabularPolicy(game)
    for state in policy.states:
        lengths = {
            action: len(state.action_to_string(state.current_player(), action)) for action in state.legal_actions()
        }
        weights = {action: 0.5**length for action, length in lengths.items()}
        row = policy.action_probability_array[policy.state_index(state)]
        row[:] = 0
        for action, weight in weights.items():
            row[action] = weight / sum(weights.values())
    assert metrics["nash_conv"] == pytest.approx(exploitability.nash_conv(game, policy), abs=1e-9)
    assert arena.played == 0
    assert not any(result.is_trainable or turn.credit for result in seen for turn in result.rollout.turns)


async def test_evaluation_tells_a_good_player_from_an_awful_one():
    def good(role, messages):
        """Tic-tac-toe by search: a policy that knows the game, played through the door."""
        board, *_ = last(messages).partition("\nMoves: ")
        state = pyspiel.load_game("tic_tac_toe").new_initial_state()
        cells = {mark: [i for i, m in enumerate(board.replace("\n", "")) if m == mark] for mark in "xo"}
        for i in range(len(cells["x"]) + len(cells["o"])):
            state.apply_action(cells["xo"[i % 2]].pop())
        bot = pyspiel.MCTSBot(state.get_game(), pyspiel.RandomRolloutEvaluator(5, 0), 1.4, 200, 64, True, 0, False)
        return f"[{state.action_to_string(bot.step(state))}]"

    wins = []
    for speak in (good, lambda *_: "[x(1,1)]"):
        task = load_task("openspiel", {"game": "tic_tac_toe", "simulations": 20})
        wins.append(await task.evaluate(arena_of(task, speak), 16, "eval-0"))
    assert wins[0]["win_vs_random"] > 0.8
    assert wins[0]["illegal"] == 0.0
    assert wins[1]["illegal"] > 0.5
    assert wins[1]["win_vs_search"] == 0.0


async def test_the_same_seed_gives_the_same_games_and_groups_begin_alike():
    first, again = [await play("openspiel", random_player(), 6, game="pig", seed=3) for _ in range(2)]
    assert [r.rollout.extras["history"] for r in first] == [r.rollout.extras["history"] for r in again]
    groups = await play("openspiel", lambda *_: "?", 6, game="leduc_poker", repeats=3, openings=2)
    starts = [str(result.rollout.turns[0].messages) for result in groups]
    assert len(set(starts[:3])) == len(set(starts[3:])) == 1
    bots = [EpisodeRequest("game-match", players={"P0": "search", "P1": "random"})] * 3
    one, two = [await play("openspiel", lambda *_: "?", bots, game="tic_tac_toe", seed=1) for _ in range(2)]
    assert [r.rollout.extras["history"] for r in one] == [r.rollout.extras["history"] for r in two]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"game": "connect_for"}, "'connect_for' can't be loaded: Unknown game"),
        ({"game": "goofspiel"}, r"'goofspiel' has players move at the same time; in turn it is 'turn_based_simul"),
        ({"game": "matrix_pd"}, "at the same time"),
        ({"game": "mfg_garnet"}, "isn't one of players who move in turn"),
        ({"game": "negotiation"}, "draws its own chance"),
        ({"game": "dou_dizhu"}, "26,057 different moves; up to 10,000"),
        ({"game": "hex", "parameters": {"size": 3}}, "'hex' can't be loaded"),
        ({"game": "hex", "parameters": {"board_size": "big"}}, "'hex' can't be loaded"),
        ({"simulations": -1}, "'simulations' wants"),
        ({"longest": 0}, "'longest' wants"),
    ],
)
def test_a_game_that_cannot_be_played_says_why(options, said):
    with pytest.raises(TaskError, match=said):
        load_task("openspiel", options)


@pytest.mark.parametrize(("module", "task"), [("pyspiel", "openspiel"), ("textarena", "textarena")])
def test_what_is_not_installed_is_asked_for_when_it_is_wanted(module, task):
    code = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import engine\nfrom engine.task import load_task, TaskError\n"
        "assert not {'textarena', 'pyspiel', 'mlx'} & {name for name, it in sys.modules.items() if it}\n"
        f"try: load_task({task!r}, {{}})\nexcept TaskError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'selfplay-tui[games]'" in said


@pytest.mark.slow
async def test_three_steps_with_the_embedded_model(tmp_path):
    assert len(await three_steps("openspiel-pocket", tmp_path)) == 3
