"""Bayesian inference: drivers, kernels, guides, adaptation, diagnostics and results.

A driver joins a model to an algorithm. The algorithms themselves see a log density, and no model.

- Drivers: :func:`mcmc`, :func:`svi`, :func:`laplace`, :func:`optimize`, :func:`pathfinder`,
  :func:`importance` and :func:`svgd`.
- Kernels, for :func:`mcmc`: :class:`NUTS`, :class:`HMC`, or any :class:`Kernel`; for thousands of
  chains :class:`ChEES`, :class:`AdjustedMCLMC`, :class:`MEADS`, or any :class:`EnsembleKernel`.
- Guides and objectives, for :func:`svi`: :class:`MeanField`, :class:`ELBO` and their kin.
- Predictive accuracy and checks of priors: :func:`loo`, :func:`cross_validate`, :func:`compare` and
  :func:`power_scale`.
- Results, diagnostics and :func:`psis`.
"""

import importlib.metadata as _metadata
import typing as _typing

from inference.calibration.report import CalibrationReport as CalibrationReport
from inference.common.layout import Layout as Layout
from inference.common.matrices import LowRankMatrix as LowRankMatrix
from inference.common.peer_names import PEER_NAMES as _OTHER_NAMES
from inference.comparison.elpd import ElpdEstimate as ElpdEstimate
from inference.comparison.model_comparison import Comparison as Comparison
from inference.comparison.model_comparison import compare as compare
from inference.comparison.power_scaling import PowerScaling as PowerScaling
from inference.drivers.calibrate import calibrate as calibrate
from inference.drivers.cross_validate import cross_validate as cross_validate
from inference.drivers.importance import importance as importance
from inference.drivers.laplace import laplace as laplace
from inference.drivers.loo import loo as loo
from inference.drivers.mcmc import mcmc as mcmc
from inference.drivers.mcmc_each import mcmc_each as mcmc_each
from inference.drivers.optimize import optimize as optimize
from inference.drivers.pathfinder import pathfinder as pathfinder
from inference.drivers.power_scale import power_scale as power_scale
from inference.drivers.resume import resume as resume
from inference.drivers.sampler import sampler as sampler
from inference.drivers.svgd import svgd as svgd
from inference.drivers.svi import svi as svi
from inference.drivers.svi_step import SVIInfo as SVIInfo
from inference.drivers.svi_step import SVIStep as SVIStep
from inference.drivers.svi_step import svi_step as svi_step
from inference.ensemble.adjusted_mclmc import AdjustedMCLMC as AdjustedMCLMC
from inference.ensemble.chees import ChEES as ChEES
from inference.ensemble.kernel import EnsembleKernel as EnsembleKernel
from inference.ensemble.meads import MEADS as MEADS
from inference.guides.by_site import BySite as BySite
from inference.guides.flows import InverseAutoregressive as InverseAutoregressive
from inference.guides.flows import MaskedAutoregressive as MaskedAutoregressive
from inference.guides.flows import NeuralSpline as NeuralSpline
from inference.guides.guide import Guide as Guide
from inference.guides.normal import FullRank as FullRank
from inference.guides.normal import LowRank as LowRank
from inference.guides.normal import MeanField as MeanField
from inference.guides.normal import PointMass as PointMass
from inference.guides.structured import Structured as Structured
from inference.hamiltonian.hmc import HMC as HMC
from inference.hamiltonian.hmc import HMCInfo as HMCInfo
from inference.hamiltonian.kernel import HamiltonianKernel as HamiltonianKernel
from inference.hamiltonian.kernel import Kernel as Kernel
from inference.hamiltonian.leapfrog import State as State
from inference.hamiltonian.nuts import NUTS as NUTS
from inference.hamiltonian.nuts import NUTSInfo as NUTSInfo
from inference.monitoring.streamed_diagnostics import StreamedDiagnostics as StreamedDiagnostics
from inference.monitoring.until import Until as Until
from inference.results.diagnostics import ebfmi as ebfmi
from inference.results.diagnostics import ess_bulk as ess_bulk
from inference.results.diagnostics import ess_mean as ess_mean
from inference.results.diagnostics import ess_tail as ess_tail
from inference.results.diagnostics import mcse_mean as mcse_mean
from inference.results.diagnostics import mcse_quantile as mcse_quantile
from inference.results.diagnostics import mcse_sd as mcse_sd
from inference.results.diagnostics import rhat as rhat
from inference.results.guide_result import GuideResult as GuideResult
from inference.results.importance_result import ImportanceResult as ImportanceResult
from inference.results.laplace_result import LaplaceResult as LaplaceResult
from inference.results.mcmc_result import MCMCResult as MCMCResult
from inference.results.mcmc_results import MCMCResults as MCMCResults
from inference.results.nested_rhat import nested_rhat as nested_rhat
from inference.results.optimize_result import ModeSummary as ModeSummary
from inference.results.optimize_result import OptimizeResult as OptimizeResult
from inference.results.pathfinder_result import PathfinderResult as PathfinderResult
from inference.results.psis import psis as psis
from inference.results.summary import Summary as Summary
from inference.results.svgd_result import SVGDResult as SVGDResult
from inference.results.svi_result import SVIResult as SVIResult
from inference.runtime.progress import Live as Live
from inference.runtime.progress import ProgressReport as ProgressReport
from inference.variational.elbo import ELBO as ELBO
from inference.variational.elbo import Objective as Objective
from inference.variational.multi_sample_bounds import ForwardKL as ForwardKL
from inference.variational.multi_sample_bounds import ImportanceWeighted as ImportanceWeighted
from inference.variational.multi_sample_bounds import Renyi as Renyi
from inference.variational.score_function import ScoreFunction as ScoreFunction
from inference.variational.svi_step import SVIState as SVIState
from ppl.common.near_names import explain_missing as _explain_missing

__all__ = [
    "ELBO",
    "HMC",
    "MEADS",
    "NUTS",
    "AdjustedMCLMC",
    "BySite",
    "CalibrationReport",
    "ChEES",
    "Comparison",
    "ElpdEstimate",
    "EnsembleKernel",
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
    "Live",
    "LowRank",
    "LowRankMatrix",
    "MCMCResult",
    "MCMCResults",
    "MaskedAutoregressive",
    "MeanField",
    "ModeSummary",
    "NUTSInfo",
    "NeuralSpline",
    "Objective",
    "OptimizeResult",
    "PathfinderResult",
    "PointMass",
    "PowerScaling",
    "ProgressReport",
    "Renyi",
    "SVGDResult",
    "SVIInfo",
    "SVIResult",
    "SVIState",
    "SVIStep",
    "ScoreFunction",
    "State",
    "StreamedDiagnostics",
    "Structured",
    "Summary",
    "Until",
    "calibrate",
    "compare",
    "cross_validate",
    "ebfmi",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "importance",
    "laplace",
    "loo",
    "mcmc",
    "mcmc_each",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "nested_rhat",
    "optimize",
    "pathfinder",
    "power_scale",
    "psis",
    "resume",
    "rhat",
    "sampler",
    "svgd",
    "svi",
    "svi_step",
]


__version__: str


def __dir__() -> list[str]:
    return __all__


if not _typing.TYPE_CHECKING:  # or a type checker would take any name for an attribute

    def __getattr__(name: str) -> str:
        if name == "__version__":  # looked up when asked for: importing stays cheap
            return _metadata.version("harvest-ppl")
        raise AttributeError(_explain_missing("inference", name, __all__, _OTHER_NAMES))
