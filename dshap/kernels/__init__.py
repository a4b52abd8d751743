"""Product kernels and the features that approximate them."""

from dshap.kernels.nystrom import KeptLandmarks, Nystrom, NystromFeatures, pivoted_cholesky
from dshap.kernels.product import (
    RBF,
    Categorical,
    Kernel,
    Laplacian,
    Matern,
    Product,
    ProductKernel,
    median_lengthscale,
)

__all__ = [
    "RBF",
    "Categorical",
    "Kernel",
    "KeptLandmarks",
    "Laplacian",
    "Matern",
    "Nystrom",
    "NystromFeatures",
    "Product",
    "ProductKernel",
    "median_lengthscale",
    "pivoted_cholesky",
]
