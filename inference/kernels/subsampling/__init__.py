"""Kernels that read some rows of large data at a time.

Reading order: `kernel` (prior, likelihood of rows, covariance), `gradient_estimate` (gradients of
batches, control variates, the noise of both), `sgld`, `sghmc`; `subsampled_hmc`.
"""
