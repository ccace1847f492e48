"""Saved files: tags in place of modules and names, formats, and files of earlier formats."""

import dataclasses
import errno
import importlib
import inspect
import json
import pathlib
import pkgutil
import re
from typing import ClassVar

import jax
import numpy as np
import pytest

import inference
from inference import (
    ELBO,
    ImportanceResult,
    LaplaceResult,
    MCMCResult,
    MeanField,
    PathfinderResult,
    SVGDResult,
    SVIResult,
)
from inference.common.serialization import FORMAT, FORMAT_0, TAGS, class_of, tag_of
from inference.results.result import Result
from inference.results.run_facts import RunFacts

FOLDER = pathlib.Path(__file__).parent / "saved_files"
FILES = sorted(FOLDER.glob("*.npz"))
LATER_FILES = sorted(FOLDER.glob("format_*/*.npz"))
TYPES = {
    "elpd": inference.ElpdEstimate,
    "importance": ImportanceResult,
    "laplace": LaplaceResult,
    "mcmc": MCMCResult,
    "optimize": inference.OptimizeResult,
    "pathfinder": PathfinderResult,
    "svgd": SVGDResult,
    "svi": SVIResult,
}
NAME = re.compile(r"\w+(\.\w+)+|\w+:\w+")  # of a module, or in one


def load(path):
    return TYPES[path.stem.partition("_")[0]].load(path)


def contents(path):
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(str(arrays.pop("structure"))), arrays


def rewritten(path, to, **changes):
    """A copy of a saved file whose structure is another."""
    structure, arrays = contents(path)
    np.savez(to, structure=np.array(json.dumps(structure | changes)), **arrays)
    return to


def classes(code):
    """The classes that a part of a structure names."""
    if isinstance(code, list):
        return {name for x in code for name in classes(x)}
    if not isinstance(code, dict):
        return set()
    own = {x for key in ("named", "object") if isinstance(x := code.get(key), str)}
    return own.union(*map(classes, code.values()))


def check(code, value, arrays):
    """Raises AssertionError if `value` is not what a part of a structure says."""
    match code:
        case {"plain": x}:
            np.testing.assert_array_equal(value, x)  # NaN equals NaN
        case {"array": number}:
            np.testing.assert_array_equal(value, arrays[str(number)])
            assert np.asarray(value).dtype == arrays[str(number)].dtype
        case {"layout": _, "leaves": leaves}:
            assert [
                [list(x), str(y)] for x, y in zip(value.shapes, value.dtypes, strict=True)
            ] == leaves
        case {"dict": items} | {"object": _, "fields": items}:
            parts = value if "dict" in code else {name: getattr(value, name) for name in items}
            assert parts.keys() == items.keys()
            for name, x in items.items():
                check(x, parts[name], arrays)
        case {"pairs": items}:
            check({"list": items}, list(value.items()), arrays)
        case {"named": _, "items": items}:
            assert all(x is None for x in value[len(items) :])  # of fields that came later
            check({"list": items}, value[: len(items)], arrays)
        case {"tuple": items} | {"list": items} | {"leaves": items}:
            for x, part in zip(
                items, jax.tree.leaves(value) if "leaves" in code else value, strict=True
            ):
                check({"list": x} if isinstance(x, list) else x, part, arrays)
        case {"absent": [text, has_density]}:
            assert (repr(value), value.has_density) == (text, has_density)
    name = code.get("named") or code.get("object")
    assert name is None or tag_of(type(value)) == name.rpartition(":")[2]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_format_0_give_the_same_arrays(path):
    structure, arrays = contents(path)
    assert "format" not in structure
    result = load(path)
    assert type(result).__name__ == structure["result"]
    for name, x in structure["fields"].items():
        check(x, getattr(result, name), arrays)


@pytest.mark.parametrize("path", LATER_FILES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_files_of_later_formats_give_the_same_arrays(path, tmp_path):
    structure, arrays = contents(path)
    assert f"format_{structure['format']}" == path.parent.name
    result = load(path)
    assert type(result).__name__ == structure["result"]
    for name, x in structure["fields"].items():
        check(x, getattr(result, name), arrays)
    result.save(tmp_path / "again.npz")
    assert repr(load(path)) == repr(type(result).load(tmp_path / "again.npz"))
    assert contents(tmp_path / "again.npz")[0]["format"] == FORMAT


def test_names_state_and_parameters_are_in_files():
    assert {path.parent.name for path in LATER_FILES} >= {f"format_{FORMAT}"}
    named = load(FOLDER / "format_3/svi_named.npz")
    assert named.summary().names == ("offset[Anoka]", "offset[Becker]")
    assert named.model_state["count"] == 3
    assert named.model_parameters.keys() == {"shift"}
    guided = load(FOLDER / "format_3/svi_guide.npz")
    assert guided.guide_state["rounds"] == 6
    assert guided.guide_parameters["loc"].shape == (2,)
    for name in ("mcmc_named", "optimize_named"):
        found = load(FOLDER / f"format_3/{name}.npz")
        assert tuple(found.summary().names) == ("offset[Anoka]", "offset[Becker]")
    before = load(FOLDER / "format_2/svi_parameters.npz")
    assert before.summary().names == ("x[0]", "x[1]")
    assert (before.model_state, before.guide_parameters) == (None, None)
    assert before.model_parameters.keys() == {"shift"}


def fields_of(tag):
    cls = class_of(tag)
    if not dataclasses.is_dataclass(cls):
        return list(cls._fields)
    return [x.name for x in dataclasses.fields(cls) if x.init]


def test_new_fields_have_a_new_format():
    """If this fails, raise FORMAT, save files of it, and write `fields.json` anew."""
    given = json.loads((FOLDER / "fields.json").read_text())
    assert given == {"format": FORMAT, "fields": {tag: fields_of(tag) for tag in sorted(TAGS)}}


def test_a_file_of_format_0_gives_its_classes():
    result = load(next(x for x in FILES if x.stem == "svi_mean_field"))
    assert result.guide == MeanField(0.25)
    assert result.objective == ELBO()
    assert type(result.parameters) is class_of("LocScale")
    assert type(result.state.settling) is class_of("Settling")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_new_file_names_no_module(path, tmp_path):
    load(path).save(tmp_path / "new")
    structure, _ = contents(tmp_path / "new")
    assert classes(structure) <= TAGS.keys()
    for name in classes(structure) | {structure["result"]}:
        assert not NAME.fullmatch(name)
    assert "inference." not in json.dumps(structure)


def modules():
    return [
        importlib.import_module(x.name)
        for x in pkgutil.walk_packages(inference.__path__, "inference.")
    ]


def records():
    """Every dataclass and named tuple of the package."""
    return {
        cls
        for module in modules()
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and cls.__module__.partition(".")[0] == "inference"
        and (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields"))
        and not inspect.isabstract(cls)
    }


# No result has one of these.
NEVER_SAVED = re.findall(
    r"\w+",
    """
    ChainPoints Drawn Ends FieldPoints LatentField Peak Shape SpreadPoints _Pair _Points _Scaling
    _Recovered
    FilterRun PathMove PMMH PMMHInfo PMMHState ParticleGibbs ParticleGibbsInfo ParticleGibbsState
    Block BlockState Conjugate EnumeratedBlock Gibbs GibbsPlan GibbsState GibbsTarget PlannedBlock
    PlannedRun PlannedSite Sweep WeightSum
    GradientEstimate RowSplit SGHMC SGLD StochasticGradientInfo StochasticGradientKernel
    StochasticGradientState SubsamplingKernel Expansion SubsampledHMC SubsampledHMCInfo
    SubsampledHMCState
    Adaptation AdjustedMCLMC Advance AffineInvariant Ascent Barker BarkerInfo BarkerTrajectory
    Batches BestNormal Bins Bounds Bridge BridgeHalf CarriedState ChEES Chain ChainPlan
    ClimbSettings Climber Column Combined CompiledProgram Conditioned Curvature
    DensityKernel DifferenceInfo DifferenceState DifferentialEvolution
    DualAveraging ELBOTrace Edge Effort EllipticalSlice EllipticalSliceInfo EllipticalSliceState
    EnsembleChains EnsembleState Fit FitsSummary FittedNormal FittedParameters Fold GivenBatch
    GuideDraws
    GibbsWithGradients GibbsWithGradientsInfo GibbsWithGradientsState InformedKernel Integers
    CountKernel CountMetropolis CountMetropolisInfo CountMetropolisState CountSlice
    DiscreteLangevin DiscreteLangevinInfo DiscreteLangevinState
    GuideFunction
    GradientFreeKernel GradientKernel Groups HMC HMCInfo HMCTrajectory HessianNormal Init
    JitteredInfo LanczosNormal Layout Leap Leaps
    Live MALA MEADS MEADSInfo MEADSState Masks ModeSearchResult ModeSummary ModelDescription
    ModelGroups ModelParameters NUTS NUTSInfo NUTSTrajectory NormalStart Observed Odds Origin
    PaddedFactor Pairs ParallelTempering PathfinderEnds PathfinderPath Point PointwiseLOO
    IntegratedStates MixedState ModelStateSpace NormalState PathState Predictions PriorReference
    OptimalProposal Square SummedStates _Body _Degrees _Parts _Run _Sizes _Step _Traced
    Progress ProgressReport Proposal RandomWalk RandomWalkInfo RandomWalkState Ranks
    RecordedInit Reference Refit ReportedModel RoundLengths RowValues RunDraws RunSettings
    SVGDAdvance
    SVIInfo SVIProblem SVIStep Samples Scale Schedule Search Share SiteDescription SiteGroup Slice
    SliceInfo SliceState
    SmoothedWeights Spline Spread StartingPoints State StepChain Subtree Summary SummaryData
    SummaryRow SummarySite SwapTally Swarm
    Fits OneFit PoolBatch PooledFits Simulator TargetPool
    Tally Targets TemperingInfo TemperingState
    TracedRun TracedSteps TransportedTarget Tuning Units Until ValueTarget Verdict WALNUTS
    WALNUTSInfo WALNUTSTrajectory Welford _Arc _Copies _Criterion _Fits _Folds _Gap _Line
    _LineSearch
    _Name _OneFit _Pairs _Parameter _ShortClimb _Simulator _Site _StandardPrior _Worst
    AdaptiveHamiltonian AdaptiveState
    LikelihoodPath ModelsPath MoveInfo Mover Particles Place Population RowPath Rows Start Step
    """,
)


def test_every_class_that_a_result_may_hold_has_a_tag():
    without = {cls.__name__ for cls in records() if tag_of(cls) is None}
    assert without <= set(NEVER_SAVED), without - set(NEVER_SAVED)
    assert all(tag_of(cls) for cls in records() if issubclass(cls, Result))


def test_tags_are_unique_and_lead_to_their_classes():
    assert len(set(TAGS.values())) == len(TAGS)
    for tag in TAGS:
        assert tag_of(class_of(tag)) == tag


# A change of one of these breaks the files that name it.
GIVEN_TAGS = json.loads((pathlib.Path(__file__).parent / "saved_files/tags.json").read_text())


def test_tags_once_given_stay():
    assert set(GIVEN_TAGS["format 1"]) <= TAGS.keys()
    before = {f"{module}:{name}" for module, names in FORMAT_0.items() for name in names}
    assert before == set(GIVEN_TAGS["format 0"])
    assert {name for names in FORMAT_0.values() for name in names} <= TAGS.keys()


def test_pairs_of_format_1_are_facts(tmp_path):
    """They were a field called `settings`, whose values are now those of a record."""
    facts = RunFacts(num_warmup=40, init="uniform", approximate=(("x", "z"), 0.8, 100))
    MCMCResult({"x": np.zeros((1, 4))}, {}, None, facts).save(tmp_path / "new.npz")
    fields = contents(tmp_path / "new.npz")[0]["fields"]
    pairs = fields.pop("facts")["fields"].items()
    fields["settings"] = {"tuple": [{"tuple": [{"plain": k}, v]} for k, v in pairs]}
    path = rewritten(tmp_path / "new.npz", tmp_path / "old.npz", format=1, fields=fields)
    assert MCMCResult.load(path).facts == facts


@pytest.mark.parametrize(
    ("changes", "told"), [({"drawn": None}, "has 'drawn' and lacks 'draws'"), ({}, "lacks 'draws'")]
)
def test_fields_of_another_version_are_told(changes, told, tmp_path):
    fields = contents(FILES[0])[0]["fields"]
    drawn = fields.pop("draws")
    fields |= {name: drawn for name in changes}
    path = rewritten(FILES[0], tmp_path / "other.npz", format=FORMAT, fields=fields)
    with pytest.raises(ValueError, match=f"of format {FORMAT}, it {told}: another version"):
        ImportanceResult.load(path)


@pytest.mark.parametrize("version", [FORMAT + 1, "2.0", -1])
def test_a_file_of_a_newer_format_is_refused_in_words(version, tmp_path):
    path = rewritten(FILES[0], tmp_path / "newer.npz", format=version, fields=None)
    message = f"cannot be loaded: it has format {version!r}, expected one of 0 to {FORMAT}: a newer"
    with pytest.raises(ValueError, match=message):
        ImportanceResult.load(path)


def test_an_unknown_tag_is_refused_in_words(tmp_path):
    fields = {"guide": {"object": "Newest", "fields": {}}}
    path = rewritten(FILES[0], tmp_path / "newer.npz", format=FORMAT, fields=fields)
    with pytest.raises(ValueError, match=r"cannot be loaded: it holds a 'Newest', .*newer one has"):
        ImportanceResult.load(path)


@pytest.mark.parametrize("name", ["inference.saved:Result", "inference.guides:os", "os:system"])
def test_format_0_names_no_other_classes(name, tmp_path):
    path = rewritten(FILES[0], tmp_path / "bad.npz", fields={"guide": {"named": name, "items": []}})
    with pytest.raises(ValueError, match=f"names '{name}', which is not of this library"):
        ImportanceResult.load(path)


@pytest.mark.parametrize("register", [lambda cls: cls, jax.tree_util.register_static])
def test_an_objective_of_the_user_is_left_out_of_a_file(register, tmp_path):
    @register
    @dataclasses.dataclass(frozen=True)
    class Mine:
        name: ClassVar[str] = "bound"

    result = load(next(x for x in FILES if x.stem == "svi_mean_field"))
    dataclasses.replace(result, objective=Mine()).save(tmp_path / "mine")
    loaded = SVIResult.load(tmp_path / "mine")
    assert repr(loaded.objective) == repr(Mine())
    assert "the objective still moves" in str(loaded.summary())
    jax.tree.map(np.testing.assert_array_equal, loaded.parameters, result.parameters)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_in_the_state_of_an_optimizer_are_kept(impl, tmp_path):
    result = next(load(path) for path in FILES if path.stem.startswith("svi"))
    keys = jax.random.split(jax.random.key(3, impl=impl))
    state = result.state._replace(optimizer_state={"keys": keys})
    dataclasses.replace(result, state=state).save(tmp_path / "noisy.npz")
    found = SVIResult.load(tmp_path / "noisy.npz").state.optimizer_state["keys"]
    assert found.dtype == keys.dtype
    np.testing.assert_array_equal(jax.random.key_data(found), jax.random.key_data(keys))


def test_a_save_that_fails_leaves_the_former_file(monkeypatch, tmp_path):
    path, result = tmp_path / "kept.npz", load(FILES[0])
    link = tmp_path / "link.npz"
    link.symlink_to(path)
    result.save(path)
    path.chmod(0o640)
    result.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    before = path.read_bytes()

    def fill(file, **_):
        file.write(b"begun")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match=r"it cannot be written: .*kept.npz") as error:
        result.save(path)
    assert error.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert {x.name for x in tmp_path.iterdir()} == {"kept.npz", "link.npz"}


def test_a_folder_in_place_of_a_file_says_what_to_do(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder, not a file of MCMCResult.save.$"):
        MCMCResult.load(tmp_path)
    (tmp_path / "manifest.json").touch()
    with pytest.raises(ValueError, match=r"checkpoint of a run.*inference\.resume\("):
        MCMCResult.load(tmp_path)


def test_what_is_no_path_is_refused():
    result = inference.MCMCResult({"x": np.zeros((1, 4))}, {}, None)
    for use in (result.save, inference.MCMCResult.load):
        with pytest.raises(TypeError, match=r"path must be the name of a file.*got 3"):
            use(3)


@pytest.mark.parametrize("name", ["fit.json", "fit.nc", "fit.PKL"])
def test_a_file_is_not_named_as_another_kind(name, tmp_path):
    result = inference.MCMCResult({"x": np.zeros((1, 4))}, {}, None)
    with pytest.raises(ValueError, match=r"archive of NumPy is written: write '.*fit.npz'$"):
        result.save(tmp_path / name)
    result.save(tmp_path / "fit.v2")
    assert {x.name for x in tmp_path.iterdir()} == {"fit.v2"}
