from dshap.loops.elementary import elementary_products, others_sums
from dshap.loops.exponents import add_exponents, fill_exponents
from dshap.loops.few_rows import few_products
from dshap.loops.form_sums import Forms, form_sums
from dshap.loops.game_sizes import exact_nodes, product_game_bytes, product_game_operations
from dshap.loops.lattice import Lattice, squares_of_sums
from dshap.loops.masking import Masks, Parts, mixed_values
from dshap.loops.member_sums import MemberSums, Terms, member_weights, subset_sums
from dshap.loops.pair_games import Groups, even_nodes, pair_game_sums
from dshap.loops.product_games import fourier_game_values, legendre_nodes, product_game_values
from dshap.loops.ridge_path import moved_squares, ridge_path
from dshap.loops.row_hashes import hash_rows, hash_texts
from dshap.loops.sizes import (
    Calls,
    lattice_bytes,
    mask_bytes,
    member_items,
    member_row_bytes,
    mixed_bytes,
    subset_sum_bytes,
    table_items,
)
from dshap.loops.subset_products import Coalitions, rows_last, table_values
from dshap.loops.term_sums import term_sums
from dshap.loops.tree_cut import (
    cut_trees,
    fill_groups,
    in_preorder,
    list_pairs,
    refine_counts,
    walk_trees,
)
from dshap.loops.tree_dependence import add_curves, count_leaves, weigh_leaves
from dshap.loops.tree_games import FACTORIALS, fill_tables
from dshap.loops.tree_products import add_integrals, shares_passed
from dshap.loops.tree_rows import (
    add_leaves,
    add_tables,
    add_tables_of_few,
    code_rows,
    count_patterns,
    most_nodes,
)
from dshap.loops.tree_walks import add_walks
from dshap.loops.warming import warm_up

__all__ = [
    "Calls",
    "Coalitions",
    "FACTORIALS",
    "Forms",
    "Groups",
    "Lattice",
    "Masks",
    "MemberSums",
    "Parts",
    "Terms",
    "add_curves",
    "add_exponents",
    "add_integrals",
    "add_leaves",
    "add_tables",
    "add_tables_of_few",
    "add_walks",
    "code_rows",
    "count_leaves",
    "count_patterns",
    "cut_trees",
    "elementary_products",
    "even_nodes",
    "exact_nodes",
    "few_products",
    "fill_exponents",
    "fill_groups",
    "fill_tables",
    "form_sums",
    "fourier_game_values",
    "hash_rows",
    "hash_texts",
    "in_preorder",
    "lattice_bytes",
    "legendre_nodes",
    "list_pairs",
    "mask_bytes",
    "member_items",
    "member_row_bytes",
    "member_weights",
    "mixed_bytes",
    "mixed_values",
    "most_nodes",
    "moved_squares",
    "others_sums",
    "pair_game_sums",
    "product_game_bytes",
    "product_game_operations",
    "product_game_values",
    "refine_counts",
    "ridge_path",
    "rows_last",
    "shares_passed",
    "squares_of_sums",
    "subset_sum_bytes",
    "subset_sums",
    "table_items",
    "table_values",
    "term_sums",
    "walk_trees",
    "warm_up",
    "weigh_leaves",
]
