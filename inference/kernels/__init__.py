"""Kernels: Markov transitions that leave a target invariant.

`hamiltonian` has the protocol of all kernels and those that follow gradients, `gradient_free`
those that do not, `discrete` those of integers and booleans, `subsampling` those that look at
some rows of the data, `ensemble` those that move all chains together; `gibbs` and `tempering`
are built of other kernels, which `inner_kernel` checks.
"""
