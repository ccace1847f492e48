"""Inference: kernels, guides, adaptation, diagnostics and results.

Kernels and guides see a log density and no model; :func:`mcmc`, :func:`svi`,
:func:`importance`, :func:`optimize` and :func:`laplace` join the two.
"""

from inference._importance import importance as importance
from inference._laplace import laplace as laplace
from inference._mcmc import mcmc as mcmc
from inference._optimize import optimize as optimize
from inference._pathfinder import pathfinder as pathfinder
from inference._svgd import svgd as svgd
from inference._svi import svi as svi
from inference.bounds import ForwardKL as ForwardKL
from inference.bounds import ImportanceWeighted as ImportanceWeighted
from inference.bounds import Renyi as Renyi
from inference.by_site import BySite as BySite
from inference.descent import SVIState as SVIState
from inference.diagnostics import ebfmi as ebfmi
from inference.diagnostics import ess_bulk as ess_bulk
from inference.diagnostics import ess_mean as ess_mean
from inference.diagnostics import ess_tail as ess_tail
from inference.diagnostics import mcse_mean as mcse_mean
from inference.diagnostics import mcse_quantile as mcse_quantile
from inference.diagnostics import mcse_sd as mcse_sd
from inference.diagnostics import rhat as rhat
from inference.flat import Layout as Layout
from inference.flows import InverseAutoregressive as InverseAutoregressive
from inference.flows import MaskedAutoregressive as MaskedAutoregressive
from inference.flows import NeuralSpline as NeuralSpline
from inference.guide_result import GuideResult as GuideResult
from inference.guides import FullRank as FullRank
from inference.guides import Guide as Guide
from inference.guides import LowRank as LowRank
from inference.guides import MeanField as MeanField
from inference.guides import PointMass as PointMass
from inference.hamiltonian import State as State
from inference.hmc import HMC as HMC
from inference.hmc import HMCInfo as HMCInfo
from inference.importance_result import ImportanceResult as ImportanceResult
from inference.kernel import HamiltonianKernel as HamiltonianKernel
from inference.kernel import Kernel as Kernel
from inference.laplace_result import LaplaceResult as LaplaceResult
from inference.metric import LowRankMatrix as LowRankMatrix
from inference.mode_result import ModeSummary as ModeSummary
from inference.mode_result import OptimizeResult as OptimizeResult
from inference.nuts import NUTS as NUTS
from inference.nuts import NUTSInfo as NUTSInfo
from inference.objective import ELBO as ELBO
from inference.objective import Objective as Objective
from inference.pareto import psis as psis
from inference.pathfinder_result import PathfinderResult as PathfinderResult
from inference.result import MCMCResult as MCMCResult
from inference.score_function import ScoreFunction as ScoreFunction
from inference.structured import Structured as Structured
from inference.summary import Summary as Summary
from inference.svgd_result import SVGDResult as SVGDResult
from inference.svi_result import SVIResult as SVIResult

__all__ = [
    "ELBO",
    "HMC",
    "NUTS",
    "BySite",
    "ForwardKL",
    "FullRank",
    "Guide",
    "GuideResult",
    "HMCInfo",
    "HamiltonianKernel",
    "ImportanceResult",
    "ImportanceWeighted",
    "InverseAutoregressive",
    "Kernel",
    "LaplaceResult",
    "Layout",
    "LowRank",
    "LowRankMatrix",
    "MCMCResult",
    "MaskedAutoregressive",
    "MeanField",
    "ModeSummary",
    "NUTSInfo",
    "NeuralSpline",
    "Objective",
    "OptimizeResult",
    "PathfinderResult",
    "PointMass",
    "Renyi",
    "SVGDResult",
    "SVIResult",
    "SVIState",
    "ScoreFunction",
    "State",
    "Structured",
    "Summary",
    "ebfmi",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "importance",
    "laplace",
    "mcmc",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "optimize",
    "pathfinder",
    "psis",
    "rhat",
    "svgd",
    "svi",
]
