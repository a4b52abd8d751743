"""Numbers that loops and their callers agree on; nothing is compiled to read them."""

from __future__ import annotations

SQUARE, DISTANCE, MATERN32, MATERN52, DIFFERENT = range(5)
"""Kinds of a column's distance t in a product kernel.

(x − z)², |x − z|, |x − z| with a polynomial (1 − rate·t; 1 − rate·t + (rate·t)²/3), and 1 where x ≠
z.
"""
NUMBER, NEAR_ZERO, ZERO_MISSING, NEVER_MISSING, CATEGORY, VALUE = range(6)
"""How a column is read.

As a number or missing (NaN); the same, with numbers near zero being 0; with zeros missing too; as a
number, NaN being 0; as the code of a category, by its whole part; as a category, by its own value.
The last two are of categories.
"""
FEW = 8
"""Rows that are processed one after the other."""
TILE = 4096
"""Rows that go through a tree together: the table of one player stays in the first-level cache."""
LANES = 64
"""Rows that are processed at once: products of all nodes on a path stay in cache."""
