"""Models of other libraries as models of this one; each library is imported where it is used.

Reading order: `from_numpyro`, then `numpyro_sites` and `numpyro_distribution`; `from_stan`, then
`stan_density` and `stan_programs`.
"""
