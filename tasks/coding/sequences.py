"""Problems about lists of things."""

from __future__ import annotations

import bisect
from itertools import groupby
from typing import Any

from tasks.coding.problem import Problem, problem

# fmt: off
SEQUENCES: list[Problem] = []


@problem(SEQUENCES,
         "Return the second largest of the different numbers in the list, or -1 if there are fewer than two. The "
         "numbers are at least 0.",
         [[3, 1, 2]], [[5, 5, 4]], [[7]], [[]], [[2, 2]], [[10, 9, 8, 10]], [[0, 1]], [[4, 100, 6, 50]])
def second_largest(numbers: list[int]) -> int:
    ranked = sorted(set(numbers))
    return ranked[-2] if len(ranked) > 1 else -1


@problem(SEQUENCES,
         "Return the list without repetitions, each element where it first was.",
         [[1, 2, 1]], [[]], [[3, 3, 3]], [[5, 4, 5, 4, 3]], [["b", "a", "b"]], [[1, 2, 3]], [[0, -1, 0]])
def unique(items: list) -> list:
    return list(dict.fromkeys(items))


@problem(SEQUENCES,
         "Return all elements of a list of nested lists, from left to right, as one list.",
         [[1, [2, [3]]]], [[]], [[[[]]]], [[1, 2]], [[[1], [2, [3, [4]]], 5]], [["a", ["b"]]], [[[], [[0]]]])
def flatten(nested: list) -> list:
    flat: list[Any] = []
    for item in nested:
        flat += flatten(item) if isinstance(item, list) else [item]
    return flat


@problem(SEQUENCES,
         "Merge two lists of numbers in ascending order into one in ascending order.",
         [[1, 4], [2, 3]], [[], []], [[1], []], [[1, 2], [1, 2]], [[-5, 0, 9], [-6, 10]], [[7], [1, 2, 3]])
def merge_sorted(a: list[int], b: list[int]) -> list[int]:
    return sorted(a + b)


@problem(SEQUENCES,
         "Return the position of the target in a list of different numbers in ascending order, or -1 if it isn't "
         "there.",
         [[1, 3, 5], 3], [[1, 3, 5], 4], [[], 1], [[7], 7], [[1, 2, 3, 4, 5, 6], 6], [[1, 3, 5], 0],
         [[-9, -4, 0, 8, 12], -9], [[2, 4, 6, 8, 10, 12, 14], 10], [[1, 2, 3, 4], 3])
def find_sorted(numbers: list[int], target: int) -> int:
    i = bisect.bisect_left(numbers, target)
    return i if i < len(numbers) and numbers[i] == target else -1


@problem(SEQUENCES,
         "Return the largest sum of consecutive elements of a list that isn't empty; at least one element has to "
         "be taken.",
         [[1, -2, 3, 4]], [[-3]], [[-2, 1, -3, 4, -1, 2, 1, -5, 4]], [[5, -9, 6]], [[-4, -1, -7]], [[2, 3]],
         [[0, 0]], [[8, -19, 5, -4, 20]])
def largest_run(numbers: list[int]) -> int:
    best = ending = numbers[0]
    for number in numbers[1:]:
        ending = max(number, ending + number)
        best = max(best, ending)
    return best


@problem(SEQUENCES,
         "Return the positions [i, j], i < j, of the two numbers of the list that sum to the target. There is "
         "exactly one such pair.",
         [[2, 7, 11], 9], [[3, 3], 6], [[1, 2, 3], 5], [[-1, 4, 9], 8], [[0, 5, 10, 0], 0], [[8, 1, 6, 3], 11],
         [[5, 2, 4], 6])
def two_sum(numbers: list[int], target: int) -> list[int]:
    pairs = [[i, j] for j in range(len(numbers)) for i in range(j) if numbers[i] + numbers[j] == target]
    return pairs[0]


@problem(SEQUENCES,
         "Turn a matrix, a list of rows of equal length, by 90 degrees clockwise.",
         [[[1, 2], [3, 4]]], [[]], [[[5]]], [[[1, 2, 3]]], [[[1], [2]]], [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
         [[[0, 1], [2, 3], [4, 5]]])
def rotate(matrix: list[list[int]]) -> list[list[int]]:
    return [list(row) for row in zip(*matrix[::-1], strict=True)]


@problem(SEQUENCES,
         "Return the elements of a matrix, a list of rows of equal length, in a spiral: clockwise from the upper "
         "left corner inwards.",
         [[[1, 2], [3, 4]]], [[]], [[[1]]], [[[1, 2, 3]]], [[[1], [2], [3]]], [[[1, 2, 3], [4, 5, 6], [7, 8, 9]]],
         [[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]])
def spiral(matrix: list[list[int]]) -> list[int]:
    walked: list[int] = []
    while matrix:
        walked += matrix[0]
        matrix = [list(row) for row in zip(*matrix[1:], strict=True)][::-1]
    return walked


@problem(SEQUENCES,
         "Cut a list into lists of the given size, which is at least 1; the last may be shorter.",
         [[1, 2, 3], 2], [[], 3], [[1], 1], [[1, 2, 3, 4], 2], [[1, 2], 5], [[7, 8, 9, 10, 11], 3])
def chunks(items: list, size: int) -> list[list]:
    return [items[i : i + size] for i in range(0, len(items), size)]


@problem(SEQUENCES,
         "Merge overlapping intervals [start, end]; intervals that touch, such as [1, 2] and [2, 3], overlap too. "
         "Return them in ascending order.",
         [[[1, 3], [2, 4]]], [[]], [[[1, 2], [2, 3]]], [[[5, 6], [1, 2]]], [[[1, 10], [2, 3], [4, 12]]],
         [[[1, 4], [0, 0]]], [[[8, 9], [1, 2], [2, 8]]])
def merge_intervals(intervals: list[list[int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


@problem(SEQUENCES,
         "Return the list of running totals: each element is the sum of all elements up to that place.",
         [[1, 2, 3]], [[]], [[5]], [[1, -1, 1, -1]], [[0, 0, 7]], [[10, 20, 30, 40]])
def running_totals(numbers: list[int]) -> list[int]:
    totals, total = [], 0
    for number in numbers:
        total += number
        totals.append(total)
    return totals


@problem(SEQUENCES,
         "Return the median of a list of numbers that isn't empty: the middle one in ascending order, or the mean "
         "of the two middle ones.",
         [[3, 1, 2]], [[4]], [[1, 2]], [[7, 7, 1, 0]], [[5, 3, 9, 1, 4]], [[-1, -5, 2, 10]], [[100, 1, 1]])
def median(numbers: list[float]) -> float:
    ranked, middle = sorted(numbers), len(numbers) // 2
    return float(ranked[middle] if len(ranked) % 2 else (ranked[middle - 1] + ranked[middle]) / 2)


@problem(SEQUENCES,
         "Rotate a list to the right by k places, where k is at least 0 and may exceed its length.",
         [[1, 2, 3], 1], [[], 4], [[1], 9], [[1, 2, 3, 4], 2], [[1, 2, 3, 4], 0], [[1, 2, 3], 4], [[5, 6], 2])
def rotate_right(items: list, k: int) -> list:
    k %= len(items) or 1
    return items[len(items) - k :] + items[: len(items) - k]


@problem(SEQUENCES,
         "Return all orders of the elements of a list of different numbers, sorted in ascending order.",
         [[1, 2]], [[]], [[5]], [[3, 1, 2]], [[2, 1]], [[4, 3, 2, 1]])
def permutations(numbers: list[int]) -> list[list[int]]:
    if not numbers:
        return [[]]
    ranked = sorted(numbers)
    return [[n, *rest] for n in ranked for rest in permutations([m for m in ranked if m != n])]


@problem(SEQUENCES,
         "Group equal neighbours of a list: return a list of [element, how many].",
         [[1, 1, 2]], [[]], [[3]], [[1, 2, 1]], [["a", "a", "a"]], [[0, 0, 5, 5, 5, 0]])
def group_neighbours(items: list) -> list[list]:
    return [[item, len(list(run))] for item, run in groupby(items)]


@problem(SEQUENCES,
         "Return the length of the longest strictly increasing subsequence: elements in their order, not "
         "necessarily neighbours.",
         [[3, 1, 2]], [[]], [[5]], [[1, 2, 3]], [[9, 8, 7]], [[10, 9, 2, 5, 3, 7, 101, 18]], [[2, 2, 2, 2]],
         [[0, 8, 4, 12, 2, 10, 6, 14, 1, 9]], [[4, 10, 4, 3, 8, 9, 1, 11]])
def longest_increasing(numbers: list[int]) -> int:
    ends: list[int] = []
    for number in numbers:
        i = bisect.bisect_left(ends, number)
        ends[i : i + 1] = [number]
    return len(ends)


@problem(SEQUENCES,
         "Return how much rain a skyline holds: each number is the height of a bar of width 1, and water stays "
         "where there is a higher bar on both sides.",
         [[2, 0, 2]], [[]], [[5]], [[0, 1, 0, 2, 1, 0, 1, 3]], [[4, 2, 0, 3, 2, 5]], [[3, 2, 1]],
         [[5, 0, 4, 0, 5]], [[1, 0, 0, 1]])
def trapped_rain(heights: list[int]) -> int:
    return sum(min(max(heights[: i + 1]), max(heights[i:])) - height for i, height in enumerate(heights))


@problem(SEQUENCES,
         "Return the matrix product of a and b, as a list of rows. The number of columns of a is the number of "
         "rows of b.",
         [[[1, 2]], [[3], [4]]], [[[2]], [[5]]], [[[1, 0], [0, 1]], [[7, 8], [9, 10]]],
         [[[1, 2], [3, 4]], [[0, 1], [1, 0]]], [[[1], [2]], [[3, 4]]], [[[1, 2, 3]], [[1], [2], [3]]])
def matrix_product(a: list[list[int]], b: list[list[int]]) -> list[list[int]]:
    return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]
