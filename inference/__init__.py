"""Bayesian inference: drivers, kernels, guides, adaptation, diagnostics and results.

A driver joins a model to an algorithm. The algorithms themselves see a log density, and no model.

- Drivers: :func:`mcmc`, :func:`svi`, :func:`laplace`, :func:`optimize`, :func:`pathfinder`,
  :func:`importance`, :func:`nested_laplace`, :func:`svgd` and :func:`smc`.
- Kernels, for :func:`mcmc`: :class:`NUTS`, :class:`WALNUTS`, :class:`HMC`, :class:`MALA`,
  :class:`Barker`; :class:`RandomWalk` and :class:`Slice` without gradients, and with many chains
  :class:`DifferentialEvolution` and :class:`AffineInvariant`, or any :class:`Kernel`;
  :class:`ParallelTempering` of one of them, for modes that are far apart and the
  :func:`evidence`; for thousands of chains :class:`ChEES`, :class:`AdjustedMCLMC`,
  :class:`MEADS`, or any :class:`EnsembleKernel`.
- Kernels of discrete values, for a log density: :class:`GibbsWithGradients`,
  :class:`DiscreteLangevin`, :class:`CountMetropolis`, :class:`CountSlice`.
- Kernels of kernels: :class:`Gibbs`, for blocks of real and discrete sites.
- Kernels of particles, for state space models: :class:`PMMH`, :class:`ParticleGibbs`.
- Guides and objectives, for :func:`svi`: :class:`MeanField`, :class:`ELBO` and their kin.
- Predictive accuracy and checks of priors: :func:`loo`, :func:`cross_validate`, :func:`compare`,
  :func:`power_scale` and :func:`prior_to_arviz`; :func:`evidence`, for Bayes factors.
- Series: :func:`particle_filter`, for models whose steps are a scan.
- Results, diagnostics and :func:`psis`.
"""

import importlib.metadata as _metadata
import typing as _typing

from inference.calibration.report import CalibrationReport
from inference.common.layout import Layout
from inference.common.matrices import LowRankMatrix
from inference.common.peer_names import PEER_NAMES as _OTHER_NAMES
from inference.common.warm_up import WarmUp
from inference.comparison.evidence_comparison import EvidenceComparison
from inference.comparison.model_comparison import Comparison, compare
from inference.comparison.power_scaling import PowerScaling
from inference.drivers.calibrate import calibrate
from inference.drivers.cross_validate import cross_validate
from inference.drivers.evidence import evidence
from inference.drivers.importance import importance
from inference.drivers.laplace import laplace
from inference.drivers.loo import loo
from inference.drivers.mcmc import mcmc
from inference.drivers.mcmc_each import mcmc_each
from inference.drivers.nested_laplace import nested_laplace
from inference.drivers.optimize import optimize
from inference.drivers.particle_filter import particle_filter
from inference.drivers.pathfinder import pathfinder
from inference.drivers.power_scale import power_scale
from inference.drivers.prior_to_arviz import prior_to_arviz
from inference.drivers.resume import resume
from inference.drivers.sample_guide import sample_guide
from inference.drivers.sampler import sampler
from inference.drivers.smc import smc
from inference.drivers.svgd import svgd
from inference.drivers.svi import svi
from inference.drivers.svi_step import SVIInfo, SVIStep, svi_step
from inference.guides.by_site import BySite
from inference.guides.flows import InverseAutoregressive, MaskedAutoregressive, NeuralSpline
from inference.guides.guide import Guide
from inference.guides.normal import FullRank, LowRank, MeanField, PointMass
from inference.guides.structured import Structured
from inference.kernels.discrete.count_metropolis import (
    CountMetropolis,
    CountMetropolisInfo,
    CountMetropolisState,
)
from inference.kernels.discrete.count_slice import CountSlice
from inference.kernels.discrete.discrete_langevin import (
    DiscreteLangevin,
    DiscreteLangevinInfo,
    DiscreteLangevinState,
)
from inference.kernels.discrete.gibbs_with_gradients import (
    GibbsWithGradients,
    GibbsWithGradientsInfo,
    GibbsWithGradientsState,
)
from inference.kernels.ensemble.adjusted_mclmc import AdjustedMCLMC
from inference.kernels.ensemble.affine_invariant import AffineInvariant
from inference.kernels.ensemble.chees import ChEES
from inference.kernels.ensemble.differential_evolution import DifferentialEvolution
from inference.kernels.ensemble.kernel import EnsembleKernel
from inference.kernels.ensemble.meads import MEADS
from inference.kernels.gibbs.gibbs import Conjugate, Enumerate, Gibbs
from inference.kernels.gibbs.gibbs_plan import GibbsPlan, gibbs_plan
from inference.kernels.gradient_free.elliptical_slice import (
    EllipticalSlice,
    EllipticalSliceInfo,
    EllipticalSliceState,
)
from inference.kernels.gradient_free.random_walk import RandomWalk, RandomWalkInfo, RandomWalkState
from inference.kernels.gradient_free.slice import Slice, SliceInfo, SliceState
from inference.kernels.hamiltonian.barker import Barker, BarkerInfo
from inference.kernels.hamiltonian.hmc import HMC, HMCInfo
from inference.kernels.hamiltonian.kernel import HamiltonianKernel, Kernel
from inference.kernels.hamiltonian.leapfrog import State
from inference.kernels.hamiltonian.mala import MALA
from inference.kernels.hamiltonian.nuts import NUTS, NUTSInfo
from inference.kernels.hamiltonian.walnuts import WALNUTS, WALNUTSInfo
from inference.kernels.particle.particle_gibbs import (
    ParticleGibbs,
    ParticleGibbsInfo,
    ParticleGibbsState,
)
from inference.kernels.particle.pmmh import PMMH, PMMHInfo, PMMHState
from inference.kernels.subsampling.gradient_estimate import (
    StochasticGradientInfo,
    StochasticGradientState,
)
from inference.kernels.subsampling.sghmc import SGHMC
from inference.kernels.subsampling.sgld import SGLD
from inference.kernels.subsampling.subsampled_hmc import (
    SubsampledHMC,
    SubsampledHMCInfo,
    SubsampledHMCState,
)
from inference.kernels.tempering.parallel_tempering import (
    ParallelTempering,
    TemperingInfo,
    TemperingState,
)
from inference.kernels.tempering.reference import Reference
from inference.monitoring.streamed_diagnostics import StreamedDiagnostics
from inference.monitoring.until import Until
from inference.results.diagnostics import (
    ebfmi,
    ess_bulk,
    ess_mean,
    ess_tail,
    mcse_mean,
    mcse_quantile,
    mcse_sd,
    rhat,
)
from inference.results.elpd import ElpdEstimate
from inference.results.evidence import Evidence
from inference.results.guide_result import GuideResult
from inference.results.importance_result import ImportanceResult
from inference.results.laplace_result import LaplaceResult
from inference.results.mcmc_result import MCMCResult
from inference.results.mcmc_results import MCMCResults
from inference.results.nested_laplace_result import NestedLaplaceResult
from inference.results.nested_rhat import nested_rhat
from inference.results.optimize_result import ModeSummary, OptimizeResult
from inference.results.particle_filter_result import ParticleFilterResult
from inference.results.pathfinder_result import PathfinderResult
from inference.results.psis import psis
from inference.results.relabel import relabel
from inference.results.smc_result import SMCResult
from inference.results.summary import Summary
from inference.results.svgd_result import SVGDResult
from inference.results.svi_result import SVIResult
from inference.runtime.progress import Live, ProgressReport
from inference.variational.elbo import ELBO, Objective
from inference.variational.multi_sample_bounds import ForwardKL, ImportanceWeighted, Renyi
from inference.variational.score_function import ScoreFunction
from inference.variational.svi_step import SVIState
from ppl.common.near_names import explain_missing as _explain_missing

__all__ = [
    "ELBO",
    "HMC",
    "MALA",
    "MEADS",
    "NUTS",
    "PMMH",
    "SGHMC",
    "SGLD",
    "WALNUTS",
    "AdjustedMCLMC",
    "AffineInvariant",
    "Barker",
    "BarkerInfo",
    "BySite",
    "CalibrationReport",
    "ChEES",
    "Comparison",
    "Conjugate",
    "CountMetropolis",
    "CountMetropolisInfo",
    "CountMetropolisState",
    "CountSlice",
    "DifferentialEvolution",
    "DiscreteLangevin",
    "DiscreteLangevinInfo",
    "DiscreteLangevinState",
    "EllipticalSlice",
    "EllipticalSliceInfo",
    "EllipticalSliceState",
    "ElpdEstimate",
    "EnsembleKernel",
    "Enumerate",
    "Evidence",
    "EvidenceComparison",
    "ForwardKL",
    "FullRank",
    "Gibbs",
    "GibbsPlan",
    "GibbsWithGradients",
    "GibbsWithGradientsInfo",
    "GibbsWithGradientsState",
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
    "NestedLaplaceResult",
    "NeuralSpline",
    "Objective",
    "OptimizeResult",
    "PMMHInfo",
    "PMMHState",
    "ParallelTempering",
    "ParticleFilterResult",
    "ParticleGibbs",
    "ParticleGibbsInfo",
    "ParticleGibbsState",
    "PathfinderResult",
    "PointMass",
    "PowerScaling",
    "ProgressReport",
    "RandomWalk",
    "RandomWalkInfo",
    "RandomWalkState",
    "Reference",
    "Renyi",
    "SMCResult",
    "SVGDResult",
    "SVIInfo",
    "SVIResult",
    "SVIState",
    "SVIStep",
    "ScoreFunction",
    "Slice",
    "SliceInfo",
    "SliceState",
    "State",
    "StochasticGradientInfo",
    "StochasticGradientState",
    "StreamedDiagnostics",
    "Structured",
    "SubsampledHMC",
    "SubsampledHMCInfo",
    "SubsampledHMCState",
    "Summary",
    "TemperingInfo",
    "TemperingState",
    "Until",
    "WALNUTSInfo",
    "WarmUp",
    "calibrate",
    "compare",
    "cross_validate",
    "ebfmi",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "evidence",
    "gibbs_plan",
    "importance",
    "laplace",
    "loo",
    "mcmc",
    "mcmc_each",
    "mcse_mean",
    "mcse_quantile",
    "mcse_sd",
    "nested_laplace",
    "nested_rhat",
    "optimize",
    "particle_filter",
    "pathfinder",
    "power_scale",
    "prior_to_arviz",
    "psis",
    "relabel",
    "resume",
    "rhat",
    "sample_guide",
    "sampler",
    "smc",
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
