"""Markov chains: starts, warm-up and draws of all chains of a run, on all cores or devices.

Reading order, for kernels that move one gradient at a time: `sampling` (a run), `chain` (one chain
as a state machine), `chain_batch` (chains of one call), `chain_programs` (compiled programs),
`initial_chain` (chains before their start). `step_sampling` runs kernels with `init` and `step`
alone.
"""
