"""Reports: one file of HTML with words, tables and pictures of a result."""

import html.parser
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.drivers.checkpoints import kept_sites
from inference.results import report_pictures
from inference.results.mcmc_result import MCMCResult
from inference.results.run_facts import RunFacts

VOID = {"meta", "img", "br", "link", "hr"}
TEAMS = ("England", "<b>France</b>", "Italy & Co")


def league(key, scale):
    k = jax.random.split(key, 4)
    home = ppl.sample(k[0], dist.Normal(1.0, 5.0), name="home")
    spread = ppl.sample(k[1], dist.HalfNormal(2.0), name="spread")
    attack = ppl.sample(k[2], dist.Normal(home * jnp.ones(3), spread), name="attack")
    return ppl.sample(k[3], dist.Normal(2 * attack, scale), name="points")


SCALE = jnp.array([0.5, 1.0, 4.0])
NAMED = ppl.label(league, {"attack": "team", "points": "team"}, {"team": TEAMS})
POSTERIOR = ppl.condition(NAMED, {"points": jnp.array([1.0, 0.5, -1.0])})


class Page(html.parser.HTMLParser):
    """The text of a page, what it loads, and the tags that it leaves open or closes twice."""

    def __init__(self, text):
        super().__init__()
        self.words, self.loaded, self.tags, self.open = [], [], set(), []
        self.feed(text)
        self.close()
        self.text = re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def written(result, path, *args, **kwargs):
    """The page of a report, which is well-formed and loads nothing."""
    assert result.report(path, *args, **kwargs) == path
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert not {"script", "iframe", "link"} & page.tags
    assert all(x.startswith(("data:image/", "#")) for x in page.loaded)
    return page


def drawn(num_chains=2, num_draws=100):
    """Chains of which one is off in `spread`, and two transitions that diverged."""
    rng = np.random.default_rng(0)
    spread = np.exp(rng.normal(size=(num_chains, num_draws)))
    spread[1] += 5
    draws = {
        "home": rng.normal(size=(num_chains, num_draws)),
        "spread": spread,
        "attack": rng.normal(size=(num_chains, num_draws, 3)),
    }
    draws = jax.tree.map(np.float32, draws)
    stats = {"is_divergent": np.arange(num_draws) + np.zeros((num_chains, 1)) < 2}
    sites = kept_sites(ppl.unconstrain(POSTERIOR, SCALE), None)
    facts = RunFacts(num_warmup=500, kernel="NUTS", seconds=1.25, device="cpu")
    return MCMCResult(draws, stats, None, facts=facts, sites=sites)


RESULT = drawn()


@pytest.fixture
def no_pictures(monkeypatch):
    monkeypatch.setattr(report_pictures.importlib.util, "find_spec", lambda name: None)


def test_a_report_has_words_tables_and_pictures(tmp_path):
    page = written(
        RESULT, tmp_path / "report.html", POSTERIOR, SCALE, key=jax.random.key(0), title="<i>Cup"
    )
    assert "<i>Cup" in page.text
    for problem in RESULT.summary().problems:
        assert problem in page.text
    assert "kernel NUTS" in page.text
    assert "500 iterations" in page.text
    assert "attack[<b>France</b>]" in page.text
    assert "b" not in page.tags
    pictures = [x for x in page.loaded if x.startswith("data:")]
    assert len(pictures) == 5  # intervals, traces, ranks, and predictions by posterior and prior
    assert "lowest ESS: spread" in page.text


def test_priors_show_numbers_or_the_sites_behind_them(tmp_path, no_pictures):
    page = written(RESULT, tmp_path / "report.html", POSTERIOR, SCALE, key=jax.random.key(0))
    assert "Normal(loc=1, scale=5)" in page.text
    assert "Normal(loc=home, scale=spread)" in page.text
    assert "Normal(loc=f(attack), scale=0.5 to 4)" in page.text
    assert "Pictures are left out" in page.text


def test_of_sites_that_never_moved_parents_are_told(tmp_path, no_pictures):
    stuck = dict(RESULT.draws) | {"spread": np.ones((2, 100), np.float32)}
    page = written(MCMCResult(stuck, {}, None), tmp_path / "report.html", POSTERIOR, SCALE)
    assert "Normal(f(home, spread))" in page.text


def test_parameters_that_only_look_like_a_value_are_functions(tmp_path, no_pictures):
    def model(key):
        w = ppl.sample(key, dist.Normal(0.0, 1.0), name="w")
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.sample(key, dist.Normal(1.0, jnp.abs(x)), name="a")
        ppl.sample(key, dist.Normal(jnp.where(w > 0, 1.0, 2.0), jnp.abs(x)), name="b")
        ppl.sample(key, dist.Normal(jnp.where(x > 0, 1.0, 2.0), 3.0), name="c")
        ppl.sample(key, dist.Normal(x, 4.0), name="d")

    rng = np.random.default_rng(0)
    draws = {name: rng.normal(size=(2, 50)).astype(np.float32) for name in "wx"}
    for x in draws.values():
        x[0, 0], x[-1, -1] = 0.5, 0.75
    posterior = ppl.condition(model, dict.fromkeys("abcd", 1.0))
    page = written(MCMCResult(draws, {}, None), tmp_path / "report.html", posterior)
    assert "a Normal(loc=1, scale=f(x))" in page.text
    assert "b Normal(f(w, x))" in page.text
    assert "c Normal(f(x))" in page.text
    assert "d Normal(loc=x, scale=4)" in page.text


def test_parameters_that_are_nan_do_not_depend_on_sites(tmp_path, no_pictures):
    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        scale = jnp.array([1.0, jnp.nan])
        ppl.sample(key, dist.Normal(x * jnp.ones(2), scale), name="y")

    draws = {"x": np.random.default_rng(0).normal(size=(2, 50)).astype(np.float32)}
    posterior = ppl.condition(model, {"y": jnp.ones(2)})
    page = written(MCMCResult(draws, {}, None), tmp_path / "report.html", posterior)
    assert "Normal(loc=x, scale=nan)" in page.text


def test_cross_validation_is_that_of_loo(tmp_path, no_pictures):
    page = written(RESULT, tmp_path / "report.html", POSTERIOR, SCALE)
    estimate = inference.loo(RESULT, POSTERIOR, SCALE)
    assert f"elpd {estimate.elpd:.1f} {estimate.se:.1f}" in page.text
    assert estimate.problems
    assert all(problem in page.text for problem in estimate.problems)
    worst = np.argmax(estimate.pareto_k)
    found = f"{estimate.names[worst]} {estimate.pareto_k[worst]:.2f}"
    assert f"{found} {estimate.pointwise[worst]:.2f}" in page.text


def test_weighted_observations_are_not_cross_validated(tmp_path, no_pictures):
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        datum = ppl.scale(lambda key: ppl.sample(key, dist.Normal(mu, 1.0), name="y"), 0.5)
        return datum(jax.random.fold_in(key, 1))

    draws = {"mu": np.random.default_rng(0).normal(size=(2, 50)).astype(np.float32)}
    posterior = ppl.condition(model, {"y": 1.0})
    page = written(MCMCResult(draws, {}, None), tmp_path / "report.html", posterior)
    assert "Left out: log probabilities have weights, by ppl.scale. See" in page.text


def test_a_site_observed_in_part_is_told_as_such(tmp_path, no_pictures):
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        return ppl.sample(key, dist.Normal(mu, jnp.ones(3)), name="y")

    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=(2, 50)), "y": rng.normal(size=(2, 50, 3))}
    draws = jax.tree.map(np.float32, draws)
    posterior = ppl.condition(model, {"y": ppl.impute(jnp.array([1.0, jnp.nan, 0.5]))})
    page = written(MCMCResult(draws, {}, None), tmp_path / "report.html", posterior)
    assert "Left out: 'y' is observed in part, by ppl.impute" in page.text
    assert "ppl.scale" not in page.text
    assert "marginalized" not in page.text


def test_without_a_model_a_report_says_what_is_missing(tmp_path, no_pictures):
    page = written(RESULT, tmp_path / "report.html")
    assert "Made without the model" in page.text
    assert "attack[England]" in page.text
    assert "HalfNormal" not in page.text


def test_an_improper_prior_is_left_out_with_words(tmp_path, no_pictures):
    def model(key):
        mu = ppl.sample(key, dist.Flat(dist.constraints.real), name="mu")
        return ppl.sample(key, dist.Normal(mu, 1.0), name="y")

    draws = {"mu": np.random.default_rng(0).normal(size=(2, 50)).astype(np.float32)}
    result = MCMCResult(draws, {}, None)
    posterior = ppl.condition(model, {"y": 1.0})
    page = written(result, tmp_path / "report.html", posterior, key=jax.random.key(0))
    assert "Normal(loc=mu, scale=1)" in page.text
    assert "Predictions by the prior are left out, as the prior cannot be drawn: " in page.text
    assert "to_arviz" not in page.text
    assert "groups" not in page.text


def test_a_large_result_shows_the_most_doubtful_scalars(tmp_path, no_pictures):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 20, 2_000)).astype(np.float32)
    x[1, :, 1_234] += 10
    page = written(MCMCResult({"x": x}, {}, None), path := tmp_path / "report.html")
    assert path.stat().st_size < 50_000
    assert "Of 2000 scalars" in page.text
    assert "x[1234]" in page.text.partition("worst by R-hat")[2]


def test_a_fit_shows_its_guide_and_its_curve(tmp_path):
    fit = inference.svi(jax.random.key(0), POSTERIOR, SCALE, num_steps=200)
    page = written(fit, tmp_path / "report.html")
    assert "MeanField" in page.text
    assert "ELBO, averaged over" in page.text


def never(key):
    raise AssertionError("the work has begun")


@pytest.mark.parametrize(
    ("path", "error", "words"),
    [
        (".", IsADirectoryError, "is a folder. Name a file"),
        (
            "report.pdf",
            ValueError,
            r"^report: 'report.pdf' .* HTML .* 'report.html', and print",
        ),
        ("report.PNG", ValueError, r"^report: 'report.PNG' is the name of a PNG file, and HTML"),
        ("missing/report.html", FileNotFoundError, "there is no folder"),
        ("/proc/report.html", OSError, "it cannot be written"),
    ],
)
def test_a_bad_path_is_refused_before_the_work(tmp_path, monkeypatch, path, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        RESULT.report(path, never)
    assert [*tmp_path.iterdir()] == []


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(TypeError, match="first argument is the path"):
        RESULT.report(POSTERIOR)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="are for a model"):
        RESULT.report(tmp_path / "report.html", key=jax.random.key(0))
    other = ppl.condition(NAMED, {"attack": jnp.zeros(3)})
    (path := tmp_path / "report.html").write_text("before")
    with pytest.raises(ValueError, match=r"^report: .*'points'.*result\.report\(path, post"):
        RESULT.report(path, other, SCALE)
    assert path.read_text() == "before"


def test_weighted_draws_have_no_cross_validation(tmp_path):
    result = inference.importance(jax.random.key(0), POSTERIOR, SCALE, num_draws=200)
    page = written(result, tmp_path / "page.html", POSTERIOR, SCALE)
    assert "Left out, as the draws have importance weights." in page.text


def fixed_spread(data=(1.0, 0.5, -1.0)):
    return ppl.condition(NAMED, {"points": jnp.array(data), "spread": 0.75})


def mode_of(posterior):
    return inference.optimize(jax.random.key(0), posterior, SCALE)


FIXED = fixed_spread()
MODE = mode_of(FIXED)


def test_a_mode_has_a_page_of_its_own(tmp_path):
    page = written(MODE, tmp_path / "mode.html", FIXED, SCALE, key=jax.random.key(0))
    assert "Normal(loc=1, scale=5)" in page.text
    assert "Normal(loc=home, scale=0.75)" in page.text
    assert f"attack[<b>France</b>] {MODE.values['attack'][1]:.6g}" in page.text
    assert f"home {MODE.values['home']:.6g}" in page.text
    for problem in MODE.problems or ["No problem found."]:
        assert problem in page.text
    assert "data drawn anew at these estimates" in page.text
    assert "data drawn anew from the prior" in page.text
    assert len([x for x in page.loaded if x.startswith("data:")]) == 4
    assert "maximized mode of the posterior on the values of sites" in page.text


def test_the_page_of_a_mode_needs_no_model(tmp_path, no_pictures):
    page = written(MODE, tmp_path / "mode.html")
    assert f"home {MODE.values['home']:.6g}" in page.text
    assert "Made without the model" in page.text
    with pytest.raises(TypeError, match=r"report\(path, posterior, \*args, key=key\)"):
        MODE.report(tmp_path / "mode.html", key=jax.random.key(0))


def test_a_mode_of_other_data_or_sites_is_refused(tmp_path):
    path = tmp_path / "mode.html"
    with pytest.raises(ValueError, match=r"^report: the model, .* those of the search: at the mod"):
        mode_of(fixed_spread((9.0, 0.5, -1.0))).report(path, FIXED, SCALE)
    with pytest.raises(ValueError, match=r"^report: .* unconstrained space has the shapes"):
        MODE.report(path, ppl.condition(FIXED, {"home": 1.0}), SCALE)
    assert not path.exists()


def test_a_mode_is_saved_and_says_what_it_has_not(tmp_path):
    MODE.save(tmp_path / "mode.npz")
    loaded = inference.OptimizeResult.load(tmp_path / "mode.npz")
    assert str(loaded.summary()) == str(MODE.summary())
    jax.tree.map(np.testing.assert_array_equal, loaded, MODE)
    loaded.report(tmp_path / "mode.html", FIXED, SCALE)
    with pytest.raises(AttributeError, match=r"no attribute 'draws' \(result.values\)"):
        _ = MODE.draws
    with pytest.raises(AttributeError, match=r"pictures are of draws: inference\.laplace"):
        MODE.plot_trace()
    with pytest.raises(TypeError, match=r"write result.values\['home'\]"):
        MODE["home"]


def test_events_of_cross_validation_have_names(tmp_path, no_pictures):
    """A site with an event axis has a log probability for each name of the axes before it."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="mu")
        rows = dist.MultivariateNormal(mu[:, None] * jnp.ones((1, 2)), scale_diag=jnp.ones(2))
        return ppl.sample(key, rows, name="v")

    labels = {"v": ("team", "half")}, {"team": TEAMS, "half": ("first", "second")}
    posterior = ppl.condition(ppl.label(model, *labels), {"v": jnp.arange(6.0).reshape(3, 2)})
    draws = {"mu": np.random.default_rng(0).normal(size=(2, 50, 3)).astype(np.float32)}
    result = MCMCResult(draws, {}, None)
    estimate = inference.loo(result, posterior)
    assert estimate.names == tuple(f"v[{team}]" for team in TEAMS)
    page = written(result, tmp_path / "report.html", posterior)
    worst = page.text.partition("highest Pareto k observation")[2]
    for name, k, elpd in zip(estimate.names, estimate.pareto_k, estimate.pointwise, strict=True):
        assert f"{name} {k:.2f} {elpd:.2f}" in worst
    assert estimate.about[1:] in page.text
