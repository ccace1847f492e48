"""Kernels that move many chains in lockstep and adapt over them: ChEES-HMC, MEADS, adjusted MCLMC.

A kernel here sees the positions of all chains at once, see
:class:`inference.ensemble.kernel.EnsembleKernel`, and no model.
"""
