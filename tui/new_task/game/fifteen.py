"""Two players in turn add 1, 2 or 3 to a sum. Whoever brings it to 15 wins."""

from engine import Game


class Fifteen(Game[tuple[int, int]]):
    """Only rules: self-play in both seats, the price of illegal moves and matches against random and perfect play
    are the engine's. A state, here (sum, seat to move), is immutable and can be hashed."""

    prompt = "Sum."  # for the embedded model, which reads no rules
    rules = (
        "Two players in turn add 1, 2 or 3 to a sum. Whoever brings it to 15 wins. "
        "Answer with your number in square brackets, such as [2]."
    )

    def deals(self):
        return [(n, 0) for n in range(7)]  # positions to begin with: the first alone would soon be known by heart

    def seat(self, state):
        return state[1]

    def legal(self, state):  # as players write them, never none; any other reply is illegal
        return [f"[{n}]" for n in (1, 2, 3) if state[0] + n <= 15]

    def play(self, state, move):
        return state[0] + int(move[1]), 1 - state[1]

    def returns(self, state):  # for each seat, None while the game goes on
        if state[0] < 15:
            return None
        return (1.0, -1.0) if state[1] == 1 else (-1.0, 1.0)

    def observe(self, state, seat):  # all that a player knows, in short; what only the other knows stays out
        return f"{state[0]:02d}"

    def describe(self, state, seat):  # the same in words, with the option `notation = "words"`
        return f"The sum is {state[0]}."
