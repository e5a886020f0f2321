"""Problems of one line each, for models that can't write more, and worked examples to show before any problem."""

from __future__ import annotations

from tasks.coding.problem import Problem, problem

# fmt: off
SHOWN: list[Problem] = []
"""Never asked: what is shown before each problem, in this order."""


@problem(SHOWN, "Return n doubled.", [4], [0], [-3])
def double(n: int) -> int:
    return 2 * n


@problem(SHOWN, "Return whether the text is empty.", [""], ["a"], [" "])
def is_empty(text: str) -> bool:
    return text == ""


@problem(SHOWN, "Return the smallest number of the list, or 0 if it is empty.", [[3, 1, 2]], [[]], [[5]])
def smallest(numbers: list[int]) -> int:
    return min(numbers, default=0)


EASY: list[Problem] = []


@problem(EASY, "Return the sum of a and b.", [2, 3], [0, 0], [-1, 4], [7, 7], [100, -30], [12, 1])
def add(a: int, b: int) -> int:
    return a + b


@problem(EASY, "Return a minus b.", [5, 3], [0, 4], [-1, -1], [9, 2], [3, 10], [100, 1])
def subtract(a: int, b: int) -> int:
    return a - b


@problem(EASY, "Return the square of n.", [3], [0], [1], [-4], [12], [7], [-1])
def square(n: int) -> int:
    return n * n


@problem(EASY, "Return n multiplied by itself twice: its third power.", [2], [0], [3], [-2], [1], [5], [-1])
def cube(n: int) -> int:
    return n**3


@problem(EASY, "Return whether n is even.", [4], [0], [7], [-2], [-3], [10], [1])
def is_even(n: int) -> bool:
    return n % 2 == 0


@problem(EASY, "Return whether n is odd.", [3], [0], [8], [-1], [5], [100], [99])
def is_odd(n: int) -> bool:
    return n % 2 == 1


@problem(EASY, "Return n without its sign.", [-5], [0], [3], [-1], [12], [-40])
def absolute(n: int) -> int:
    return abs(n)


@problem(EASY, "Return the larger of two numbers.", [2, 7], [5, 1], [3, 3], [-2, -9], [0, 4], [8, 7])
def larger(a: int, b: int) -> int:
    return max(a, b)


@problem(EASY, "Return the remainder of a divided by b. Both are above 0.", [7, 3], [9, 3], [2, 5], [10, 4],
         [17, 6], [1, 1])
def remainder(a: int, b: int) -> int:
    return a % b


@problem(EASY, "Return whether n is divisible by d, which is above 0.", [6, 3], [7, 3], [0, 4], [10, 5], [9, 2],
         [1, 1], [5, 10])
def divisible(n: int, d: int) -> bool:
    return n % d == 0


@problem(EASY, "Return the area of a rectangle with these sides.", [2, 3], [0, 5], [4, 4], [7, 1], [10, 12], [6, 9])
def rectangle_area(width: int, height: int) -> int:
    return width * height


@problem(EASY, "Return the sum of the numbers from 1 to n. n is at least 0.", [4], [0], [1], [2], [10], [7], [100])
def sum_to(n: int) -> int:
    return sum(range(n + 1))


@problem(EASY, "Return the length of the text.", ["abc"], [""], ["a"], ["two words"], ["  "], ["hello"])
def text_length(text: str) -> int:
    return len(text)


@problem(EASY, "Return the text in capital letters.", ["ab"], [""], ["Hello"], ["x y"], ["ABC"], ["a1b2"])
def shout(text: str) -> str:
    return text.upper()


@problem(EASY, "Return the text backwards.", ["abc"], [""], ["ab"], ["noon!"], ["x"], ["one two"])
def reverse_text(text: str) -> str:
    return text[::-1]


@problem(EASY, "Return the text repeated n times.", ["ab", 2], ["x", 0], ["a", 3], ["", 5], ["hi ", 1], ["no", 4])
def repeat_text(text: str, n: int) -> str:
    return text * n


@problem(EASY, "Return the first letter of the text, or '' if it is empty.", ["abc"], [""], ["x"], ["Hello"],
         [" a"], ["two"])
def first_letter(text: str) -> str:
    return text[:1]


@problem(EASY, "Return whether the text begins with the given start.", ["apple", "ap"], ["apple", "le"], ["", "a"],
         ["x", ""], ["test", "test"], ["te", "test"], ["banana", "ba"])
def begins_with(text: str, start: str) -> bool:
    return text.startswith(start)


@problem(EASY, "Return the words of the text in a list. Words are separated by spaces.", ["a b"], [""], ["one"],
         ["one two three"], ["to be"], ["x y z"])
def words_of(text: str) -> list[str]:
    return text.split()


@problem(EASY, "Return the sum of the numbers in the list.", [[1, 2, 3]], [[]], [[5]], [[-1, 1]], [[10, 20]],
         [[2, 2, 2]])
def total(numbers: list[int]) -> int:
    return sum(numbers)


@problem(EASY, "Return the largest number of the list, which isn't empty.", [[1, 3, 2]], [[5]], [[-1, -7]],
         [[4, 4]], [[0, 10, 9]], [[8, 1, 2, 3]])
def largest(numbers: list[int]) -> int:
    return max(numbers)


@problem(EASY, "Return how many elements the list has.", [[7, 8]], [[]], [[1]], [[0, 0, 0]], [["a", "b"]],
         [[1, 2, 3, 4]])
def count_elements(items: list) -> int:
    return len(items)


@problem(EASY, "Return the last element of the list, which isn't empty.", [[1, 2]], [[5]], [[3, 4, 9]], [[6, -2]],
         [[0, 0, 1]], [[7, 2]])
def last_element(items: list[int]) -> int:
    return items[-1]


@problem(EASY, "Return the list in ascending order.", [[2, 1]], [[]], [[3, 1, 2]], [[5, 5]], [[-1, 4, 0]], [[9, 8]])
def ascending(numbers: list[int]) -> list[int]:
    return sorted(numbers)


@problem(EASY, "Return the list backwards.", [[1, 2]], [[]], [[3]], [[1, 2, 3]], [["a", "b"]], [[4, 4, 5]])
def reversed_list(items: list) -> list:
    return items[::-1]


@problem(EASY, "Return whether the list contains x.", [[1, 2], 2], [[], 1], [[3], 3], [[1, 2, 3], 4], [[5, 5], 5],
         [[0], 1], [[8, 9], 9])
def contains(items: list[int], x: int) -> bool:
    return x in items


@problem(EASY, "Return how often x is in the list.", [[1, 2, 1], 1], [[], 1], [[3, 3, 3], 3], [[1, 2], 5],
         [[4, 4], 4], [[0, 1, 0, 0, 0], 0])
def count_of(items: list[int], x: int) -> int:
    return items.count(x)


@problem(EASY, "Return a list of every number of the list doubled.", [[1, 2]], [[]], [[5]], [[0, -1]], [[3, 3]],
         [[10, 20, 30]])
def doubled(numbers: list[int]) -> list[int]:
    return [2 * number for number in numbers]


@problem(EASY, "Return the even numbers of the list, in their order.", [[1, 2, 4]], [[]], [[3]], [[6]], [[2, 2]],
         [[5, 8, 1, 0]])
def evens(numbers: list[int]) -> list[int]:
    return [number for number in numbers if number % 2 == 0]
