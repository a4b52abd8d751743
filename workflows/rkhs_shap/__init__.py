"""The experiments of RKHS-SHAP (Chau, Hu, Gonzalez, Sejdinovic; NeurIPS 2022), run again: see
README.md here."""
