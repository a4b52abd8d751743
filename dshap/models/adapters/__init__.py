"""Fitted models of other libraries, reduced to sums of product kernels."""
