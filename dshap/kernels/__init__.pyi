from dshap.kernels.features import (
    Basis,
    Embedding,
    Fourier,
    FourierBasis,
    FourierFeatures,
    SubsetFeatures,
    checked_embedding,
)
from dshap.kernels.nystrom import (
    Expressed,
    ExpressedLandmarks,
    KeptLandmarks,
    Nystrom,
    NystromBasis,
    pivoted_cholesky,
)
from dshap.kernels.product import ProductKernel
from dshap.kernels.ridge import ridge_solve
from dshap.kernels.unbound import (
    RBF,
    Categorical,
    Kernel,
    Laplacian,
    Matern,
    Product,
    bound_kernel,
    checked_kernel,
    median_lengthscale,
)

__all__ = [
    "RBF",
    "Basis",
    "Categorical",
    "Embedding",
    "Expressed",
    "ExpressedLandmarks",
    "Fourier",
    "FourierBasis",
    "FourierFeatures",
    "Kernel",
    "KeptLandmarks",
    "Laplacian",
    "Matern",
    "Nystrom",
    "NystromBasis",
    "Product",
    "ProductKernel",
    "SubsetFeatures",
    "bound_kernel",
    "checked_embedding",
    "checked_kernel",
    "median_lengthscale",
    "pivoted_cholesky",
    "ridge_solve",
]
