"""Small components that calculate, for tests of how components are composed."""

from __future__ import annotations

from weft import accumulator, condition, step

root = step(lambda x: x, name="root")
add_one = step(lambda x: x + 1, name="add_one")
double = step(lambda x: x * 2, name="double")
minus_one = step(lambda x: x - 1, name="minus_one")
pair = step(lambda a, b: (a, b), name="pair")
is_even = condition(lambda x: x % 2 == 0, name="is_even")
total = accumulator(lambda so_far, x: so_far + x, init=0, name="total")
