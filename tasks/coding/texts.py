"""Problems about texts."""

from __future__ import annotations

from collections import Counter

from tasks.coding.problem import Problem, problem

# fmt: off
TEXTS: list[Problem] = []


@problem(TEXTS,
         "Return how many vowels (a, e, i, o, u, small or capital) are in the text.",
         ["hello"], [""], ["sky"], ["AEIOU"], ["Programming"], ["queueing"], ["A man, a plan"], ["e"])
def count_vowels(text: str) -> int:
    return sum(letter in "aeiouAEIOU" for letter in text)


@problem(TEXTS,
         "Return whether the text reads the same backwards, when only letters and digits count and capitals are as"
         " small letters.",
         ["Level"], ["hello"], [""], ["A man, a plan, a canal: Panama"], ["ab"], ["No 'x' in Nixon"], ["12 21"],
         ["1a2"], ["Was it a rat?"], ["..."], ["abca"])
def is_palindrome(text: str) -> bool:
    letters = [letter.lower() for letter in text if letter.isalnum()]
    return letters == letters[::-1]


@problem(TEXTS,
         "Return the words of the text in reverse order, with one space between them. Words are separated by any "
         "number of spaces.",
         ["one two three"], ["a"], [""], ["  a  b "], ["to be or not"], ["x y x"], ["the  end"])
def reverse_words(text: str) -> str:
    return " ".join(reversed(text.split()))


@problem(TEXTS,
         "Return whether the two texts have the same letters equally often. Spaces don't count, and capitals are "
         "as small letters.",
         ["listen", "silent"], ["a", "b"], ["", ""], ["Dormitory", "dirty room"], ["aab", "abb"], ["abc", "abcc"],
         ["Night", "Thing"], ["rat", "cars"], ["aaa", "aa"], ["Debit card", "Bad credit"])
def are_anagrams(a: str, b: str) -> bool:
    return Counter(a.lower().replace(" ", "")) == Counter(b.lower().replace(" ", ""))


@problem(TEXTS,
         "Shift each letter of the text by the given number of places in the alphabet, from z on to a; capitals "
         "stay capitals, and other characters stay as they are. The shift may be negative.",
         ["abc", 1], ["xyz", 3], ["Hello, World!", 13], ["abc", 0], ["abc", -1], ["Zz", 27], ["", 5],
         ["Attack at dawn", -7])
def caesar(text: str, shift: int) -> str:
    def moved(letter: str) -> str:
        if not ("a" <= letter.lower() <= "z"):
            return letter
        first = ord("a" if letter.islower() else "A")
        return chr(first + (ord(letter) - first + shift) % 26)

    return "".join(map(moved, text))


@problem(TEXTS,
         "Write each run of equal characters as the character and the length of the run.",
         ["aaabb"], [""], ["a"], ["abc"], ["aaaaaaaaaaaa"], ["aabbaa"], ["zzZ"], ["  x"])
def run_lengths(text: str) -> str:
    runs: list[list[str]] = []
    for letter in text:
        if runs and runs[-1][0] == letter:
            runs[-1].append(letter)
        else:
            runs.append([letter])
    return "".join(f"{run[0]}{len(run)}" for run in runs)


@problem(TEXTS,
         "Return whether the brackets ()[]{} in the text are balanced and rightly nested. Other characters don't "
         "count.",
         ["(a)"], ["([)]"], [""], ["{[()]}"], ["(("], ["))"], ["a(b[c]d)e"], [")("], ["[](){}"], ["{[}"])
def is_balanced(text: str) -> bool:
    opened: list[str] = []
    pairs = {")": "(", "]": "[", "}": "{"}
    for letter in text:
        if letter in pairs.values():
            opened.append(letter)
        elif letter in pairs and (not opened or opened.pop() != pairs[letter]):
            return False
    return not opened


@problem(TEXTS,
         "Return the longest beginning that all words of the list have in common.",
         [["flower", "flow", "flight"]], [["dog", "car"]], [["a"]], [[]], [["same", "same"]], [["", "b"]],
         [["interview", "internet", "interval"]], [["ab", "abc", "abd"]], [["prefix", "pre"]])
def common_prefix(words: list[str]) -> str:
    prefix = ""
    for letters in zip(*words, strict=False):
        if len(set(letters)) > 1:
            break
        prefix += letters[0]
    return prefix


@problem(TEXTS,
         "Return the first character that is in the text only once, or '' if there is none.",
         ["aabc"], [""], ["abab"], ["x"], ["swiss"], ["racecars"], ["aA"], ["leetcode"], ["112233445"])
def first_unique(text: str) -> str:
    counts = Counter(text)
    return next((letter for letter in text if counts[letter] == 1), "")


@problem(TEXTS,
         "Turn a name_in_snake_case into one inCamelCase: without underscores, and each word after the first "
         "begins with a capital.",
         ["snake_case"], ["a"], ["one_two_three"], ["x_y"], ["already"], ["get_http_response"], ["to_id"])
def to_camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


@problem(TEXTS,
         "Return how many times each word is in the text. Words are separated by spaces, and capitals are as small"
         " letters.",
         ["a b a"], [""], ["one"], ["The cat the dog"], ["x  x x"], ["Red red RED blue"], ["to be or not to be"])
def word_counts(text: str) -> dict[str, int]:
    return dict(Counter(text.lower().split()))


@problem(TEXTS,
         "Return the length of the longest part of the text (consecutive characters) without a repeated character.",
         ["abcabcbb"], [""], ["bbbbb"], ["pwwkew"], ["abcdef"], ["dvdf"], ["abba"], ["tmmzuxtyz"], ["aab"])
def longest_distinct(text: str) -> int:
    best = start = 0
    seen: dict[str, int] = {}
    for i, letter in enumerate(text):
        start = max(start, seen.get(letter, -1) + 1)
        seen[letter] = i
        best = max(best, i - start + 1)
    return best


@problem(TEXTS,
         "Return the number of single-character insertions, deletions and replacements needed at least to turn a "
         "into b.",
         ["kitten", "sitting"], ["", ""], ["a", ""], ["abc", "abd"], ["flaw", "lawn"], ["intention", "execution"],
         ["same", "same"], ["ab", "ba"], ["sunday", "saturdays"], ["", "abcdefg"])
def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


@problem(TEXTS,
         "Return the value of an expression of whole numbers joined by + and -, without brackets, such as '1 + "
         "2-3'. It may have spaces, and begins with a number.",
         ["1+2"], ["7"], ["10 - 4"], ["1 + 2 - 3 + 4"], ["100-1-1"], [" 5 "], ["0 - 8"], ["12+30-2"])
def evaluate_sum(expression: str) -> int:
    return sum(map(int, expression.replace(" ", "").replace("-", "+-").split("+")))


@problem(TEXTS,
         "Return the number that the Roman numeral stands for.",
         ["XIV"], ["I"], ["IV"], ["IX"], ["LVIII"], ["MCMXCIV"], ["XC"], ["CD"], ["MMXXIV"])
def from_roman(text: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[letter] for letter in text]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


@problem(TEXTS,
         "Return the text with its sentences' first letters as capitals. A sentence begins at the first letter of "
         "the text and at the first letter after each '.', '!' or '?'.",
         ["hi. you"], [""], ["one"], ["a! b? c."], ["Done. now"], ["no dots here"], ["x.y"], ["wait... what"])
def capitalise_sentences(text: str) -> str:
    result, begins = "", True
    for letter in text:
        result += letter.upper() if begins and letter.isalpha() else letter
        begins = letter in ".!?" or (begins and not letter.isalpha())
    return result
