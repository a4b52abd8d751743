"""The published comparison of L-Shapley and C-Shapley; README.md says how, and what came out."""
