"""Inference: kernels, adaptation, diagnostics and results.

A kernel sees a log density over a pytree and no model; :func:`mcmc` joins the two.
"""

from inference._mcmc import mcmc as mcmc
from inference.diagnostics import ebfmi as ebfmi
from inference.diagnostics import ess_bulk as ess_bulk
from inference.diagnostics import ess_mean as ess_mean
from inference.diagnostics import ess_tail as ess_tail
from inference.diagnostics import mcse_mean as mcse_mean
from inference.diagnostics import mcse_quantile as mcse_quantile
from inference.diagnostics import mcse_sd as mcse_sd
from inference.diagnostics import rhat as rhat
from inference.hamiltonian import State as State
from inference.hmc import HMC as HMC
from inference.hmc import HMCInfo as HMCInfo
from inference.nuts import NUTS as NUTS
from inference.nuts import NUTSInfo as NUTSInfo
from inference.pareto import psis as psis
from inference.result import MCMCResult as MCMCResult
from inference.summary import Summary as Summary

__all__ = [
    "HMC",
    "NUTS",
    "HMCInfo",
    "MCMCResult",
    "NUTSInfo",
    "State",
    "Summary",
    "ebfmi",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "mcmc",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "psis",
    "rhat",
]
