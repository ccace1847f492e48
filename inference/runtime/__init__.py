"""Runtime of inference: compiled programs, XLA's options, devices, threads and settings of JAX.

Reading order: `signature` and `compiled_program` (programs compiled once), `xla` and `xla_options`
(the tricks that make them fast), `devices` (chains over devices and processes), `jax_settings` and
`compilation_cache`, `blas_threads`, `interrupts`, `progress`.
"""
