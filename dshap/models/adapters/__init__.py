"""Fitted models of other libraries as sums of product kernels."""
