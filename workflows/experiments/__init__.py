"""The published comparison of L-Shapley and C-Shapley, run again; README.md says how, and what came out."""
