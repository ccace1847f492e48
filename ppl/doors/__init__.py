"""Models of other libraries as models of this one; each library is imported where it is used.

Reading order: `door_model`; `from_numpyro`, then `numpyro_sites` and `numpyro_distribution` with
`numpyro_supports` and `independent_parts`; `from_pymc`, then `pymc_graphs`, `pymc_distributions`,
`pytensor_graphs` and `pytensor_samplers`; `from_stan`, then `stan_density` and `stan_programs`.
"""
