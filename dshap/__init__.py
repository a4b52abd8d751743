"""dshap: Shapley values for models on tables that outgrow one machine.

attribution (n, d, k) = finish( sum over coalition tiles of  values (n, m, k) x score (m, d) )
"""

from dshap.core.faces import lazy_face

__version__ = "0.3.0"
_OF_SHAP = {
    "TreeExplainer": ": dshap.Explainer(ensemble)(X)",
    **dict.fromkeys(
        ("ExactExplainer", "KernelExplainer", "PermutationExplainer", "SamplingExplainer"),
        ": dshap.Explainer(model.predict, X[:100])(X)",
    ),
    "LinearExplainer": ": dshap.values.LinearGaussian(coef, intercept, data=X)",
    "plots": ": shap.plots draw what dshap.Explainer gives",
}
"""Name in the shap package -> the replacement, for the message of an unknown name."""

__getattr__, __dir__, __all__ = lazy_face(__name__, _OF_SHAP)
