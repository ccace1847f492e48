"""Gibbs sampling: a kernel made of kernels, each for a block of sites.

Reading order: `gibbs` (blocks), `gibbs_plan` (what moves each site of a model, and why), `sweep`
(a transition), `block_density` (what the kernel of a block evaluates).
"""
