"""Markov chains: starts, warm-up and draws of all chains of a run, on all cores or devices.

Reading order, for kernels that move one gradient at a time: `sampling` (a run), `chain` (one chain
as a state machine), `chain_batch` (chains of one call), `chain_programs` (compiled programs),
`initial_chain` (chains before their start). For kernels with `init` and `step`:
`step_sampling` and `ensemble_sampling` (starts), `step_run` (a run), `step_chains` and
`ensemble_chains` (compiled functions). For all of them: `batch` (chains of one call and their
draws), `row_buffers` (memory for draws).
"""
