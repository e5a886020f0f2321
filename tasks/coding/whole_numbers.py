"""Problems about whole numbers."""

from __future__ import annotations

import math

from tasks.coding.problem import Problem, problem

# fmt: off
WHOLE_NUMBERS: list[Problem] = []


@problem(WHOLE_NUMBERS,
         "Return the greatest common divisor of two positive numbers.",
         [12, 18], [7, 13], [100, 75], [9, 9], [1, 5], [270, 192], [17, 51], [1071, 462], [14, 35])
def gcd(a: int, b: int) -> int:
    return math.gcd(a, b)


@problem(WHOLE_NUMBERS,
         "Return whether n is a prime number. n may be any whole number.",
         [7], [2], [1], [0], [9], [97], [-7], [91], [49], [101], [561], [7919], [13])
def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


@problem(WHOLE_NUMBERS,
         "Return the n-th Fibonacci number, where number 0 is 0 and number 1 is 1.",
         [6], [0], [1], [2], [10], [20], [30], [50], [7])
def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@problem(WHOLE_NUMBERS,
         "Return the sum of the decimal digits of n. The sign doesn't matter.",
         [123], [0], [9], [-45], [1000], [99999], [8008], [-7], [31415926])
def digit_sum(n: int) -> int:
    return sum(map(int, str(abs(n))))


@problem(WHOLE_NUMBERS,
         "Return n! (n factorial). 0! is 1.",
         [4], [0], [1], [2], [3], [7], [10], [13], [20])
def factorial(n: int) -> int:
    return math.factorial(n)


@problem(WHOLE_NUMBERS,
         "Return the prime factors of n, which is at least 2, in ascending order, with repetition.",
         [12], [2], [7], [64], [45], [97], [360], [1001], [9973], [225])
def prime_factors(n: int) -> list[int]:
    factors, d = [], 2
    while n > 1:
        while n % d == 0:
            factors.append(d)
            n //= d
        d += 1
    return factors


@problem(WHOLE_NUMBERS,
         "Return the number of steps that n, which is at least 1, takes to become 1, where a step halves an even "
         "number and replaces an odd n by 3 * n + 1.",
         [6], [1], [2], [3], [7], [16], [27], [97], [1024])
def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@problem(WHOLE_NUMBERS,
         "Return the numbers from 1 to n as texts, but 'Fizz' for multiples of 3, 'Buzz' for multiples of 5, and "
         "'FizzBuzz' for multiples of both.",
         [5], [1], [3], [0], [6], [10], [15], [16], [31])
def fizzbuzz(n: int) -> list[str]:
    return ["Fizz" * (i % 3 == 0) + "Buzz" * (i % 5 == 0) or str(i) for i in range(1, n + 1)]


@problem(WHOLE_NUMBERS,
         "Return the Roman numeral of n, which is from 1 to 3999, in capital letters.",
         [14], [1], [4], [9], [40], [90], [400], [1994], [2024], [3999], [58])
def to_roman(n: int) -> str:
    table = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"),
             (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]  # fmt: skip
    text = ""
    for value, letters in table:
        text += letters * (n // value)
        n %= value
    return text


@problem(WHOLE_NUMBERS,
         "Return n, which is at least 0, written in binary, without a prefix. 0 is '0'.",
         [5], [0], [1], [2], [8], [10], [255], [256], [1023])
def to_binary(n: int) -> str:
    return f"{n:b}"


@problem(WHOLE_NUMBERS,
         "Return whether n is a perfect number: at least 2, and the sum of its divisors other than n.",
         [6], [28], [1], [12], [496], [0], [100], [8128], [27], [8127])
def is_perfect(n: int) -> bool:
    return n > 1 and sum(d for d in range(1, n) if n % d == 0) == n


@problem(WHOLE_NUMBERS,
         "Return the largest whole number whose square is at most n, which is at least 0.",
         [10], [0], [1], [3], [4], [24], [99], [1000000], [10**18 + 1])
def integer_root(n: int) -> int:
    return math.isqrt(n)


@problem(WHOLE_NUMBERS,
         "Return whether the year is a leap year: divisible by 4, unless it is divisible by 100 and not by 400.",
         [2024], [1900], [2000], [2023], [1996], [2100], [1600], [2001], [400], [1800])
def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@problem(WHOLE_NUMBERS,
         "Return in how many ways one can climb n stairs, taking one or two at a time. For 0 it is 1.",
         [3], [0], [1], [2], [4], [5], [10], [25], [40])
def climbing_ways(n: int) -> int:
    a, b = 1, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@problem(WHOLE_NUMBERS,
         "Return the smallest number of coins that sum to the amount, with any number of each of the given coins, "
         "or -1 if that is impossible. For amount 0 it is 0.",
         [[1, 2, 5], 11], [[2], 3], [[1], 0], [[1, 3, 4], 6], [[5, 10], 30], [[7], 7], [[3, 7], 5],
         [[1, 5, 10, 25], 63], [[4, 9], 35], [[2, 6], 101])
def fewest_coins(coins: list[int], amount: int) -> int:
    fewest = [0, *[amount + 1] * amount]
    for total in range(1, amount + 1):
        fewest[total] = min([fewest[total - c] + 1 for c in coins if c <= total], default=amount + 1)
    return fewest[amount] if fewest[amount] <= amount else -1


@problem(WHOLE_NUMBERS,
         "Return the first n rows of Pascal's triangle, each as a list of numbers.",
         [3], [0], [1], [2], [4], [5], [7])
def pascal(n: int) -> list[list[int]]:
    return [[math.comb(row, k) for k in range(row + 1)] for row in range(n)]
