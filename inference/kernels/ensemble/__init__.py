"""Kernels that move many chains in lockstep.

ChEES-HMC, MEADS and adjusted MCLMC adapt over chains; stretch moves and differential evolution need
no gradient. A kernel here sees the positions of all chains at once, see
:class:`inference.kernels.ensemble.kernel.EnsembleKernel`.
"""
