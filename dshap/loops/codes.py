"""Numbers that loops and their callers share; a module that reads them compiles no loop."""

from __future__ import annotations

SQUARE, DISTANCE, MATERN32, MATERN52, DIFFERENT = range(5)
"""Kinds of a column's distance t in a product kernel.

(x − z)², |x − z|, |x − z| with a polynomial (1 − rate·t; 1 − rate·t + (rate·t)²/3), and 1 if x ≠
z.
"""
NUMBER, NEAR_ZERO, ZERO_MISSING, NEVER_MISSING, CATEGORY, VALUE = range(6)
"""How a decision reads a column.

`NUMBER`: a number; NaN is missing.  `NEAR_ZERO`: the same, and numbers near zero are 0.
`ZERO_MISSING`: zeros are missing too.  `NEVER_MISSING`: NaN is 0.  `CATEGORY`: the whole part of the
number is the code of a category.  `VALUE`: the number itself is a category.
"""
FEW = 8
"""Rows that are processed one after the other."""
TILE = 4096
"""Rows that go through a tree together: the table of one player stays in the first-level cache."""
LANES = 64
"""Rows that are processed together: products of all nodes on a path stay in cache."""
