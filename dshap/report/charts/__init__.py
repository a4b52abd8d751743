"""Pictures as charts of Altair, from the records that matplotlib draws too."""
