"""Special functions, quadrature, samplers and formulas that several families share.

Read `special` and `gamma_functions` first, then `loader_kernels`; the other files stand alone.

| subject                    | files                                                          |
| -------------------------- | -------------------------------------------------------------- |
| special functions          | `special`, `gamma_functions`, `normal_functions`,              |
|                            | `incomplete_gamma_beta`, `normal_limit`, `hyperbolic`          |
| densities in Loader's form | `loader_kernels`, `loader_log_pmf`                             |
| sums and integrals         | `quadrature`, `ratio_series`, `scaled_numbers`,                |
|                            | `poisson_mixture`, `beta_mixture_entropy`, `gamma_ratios`,     |
|                            | `wiener_tails`                                                 |
| samplers                   | `rejection_sampler`, `gamma_sampler`                           |
| formulas of a few families | all other files, each named for its families or its subject    |
"""
