"""Markov chains: starts, warm-up and draws of all chains of a run, on all cores or devices.

Reading order: `chain_run` (the loop of all kernels), `batch` (chains of one call and their draws),
`row_buffers` (memory for draws), `run_control` (ends of a run). For kernels that move one gradient
at a time: `sampling` (starts, what chains learn together), `chain` (one chain as a state machine),
`mapped_chain` (the same for accelerators), `chain_batch` (chains of one call), `chain_programs`
(compiled programs), `initial_chain` (chains before their start), `traced_run` (a whole run in one
program), `target_pool` (such runs for many targets). For kernels with `init` and `step`:
`step_sampling` and `ensemble_sampling` (starts), `step_run` (calls), `step_chains` and
`ensemble_chains` (compiled functions).
"""
