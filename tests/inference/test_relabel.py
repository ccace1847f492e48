"""Labels of mixtures that switch: relabel, and the words of a summary."""

import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inference
import ppl
from inference import MCMCResult, SMCResult

RNG = np.random.default_rng(0)
MEANS = np.array([-4.0, 0.0, 5.0])
SHARES = np.array([0.5, 0.3, 0.2])
LABELS = (("component", None),)
SITES = (
    ("mu", False, LABELS),
    ("share", False, LABELS),
    ("loading", False, (("component", None), ("item", None))),
    ("scale", False, ()),
)
AXES = {"mu": 0, "share": 0, "loading": 0}


def true_draws(num_chains=4, num_draws=300):
    """Draws of three components and of a site without them."""
    shape = (num_chains, num_draws)
    return {
        "mu": MEANS + 0.7 * RNG.normal(size=(*shape, 3)),
        "share": SHARES + 0.03 * RNG.normal(size=(*shape, 3)),
        "loading": RNG.normal(size=(3, 2)) * 100 + RNG.normal(size=(*shape, 3, 2)),
        "scale": RNG.normal(size=shape),
    }


def permuted(draws, permutations):
    """Draws with components permuted by hand: ``(chain, draw, component)``."""
    return {
        name: np.stack(
            [
                np.stack([x[order] if name in AXES else x for x, order in zip(*chain, strict=True)])
                for chain in zip(leaf, permutations, strict=True)
            ]
        )
        for name, leaf in draws.items()
    }


def by_chain(orders, num_draws=300):
    return np.repeat(np.array(orders)[:, None], num_draws, 1)


BETWEEN = by_chain([[0, 1, 2], [0, 1, 2], [2, 0, 1], [1, 0, 2]])
WITHIN = BETWEEN.copy()
WITHIN[0, 100:180] = [1, 2, 0]
WITHIN[2, 50:] = [0, 2, 1]
EVERYWHERE = RNG.permuted(by_chain([[0, 1, 2]] * 4), axis=-1)


def result(draws, **stats):
    return MCMCResult(draws, stats, None, sites=SITES)


def up_to_one_permutation(found, draws):
    """Whether two sets of draws are equal bit for bit but for one order of the components."""
    return any(
        all(
            np.array_equal(found[name], leaf[:, :, list(order)] if name in AXES else leaf)
            for name, leaf in draws.items()
        )
        for order in itertools.permutations(range(3))
    )


@pytest.mark.parametrize("switched", [BETWEEN, WITHIN, EVERYWHERE])
@pytest.mark.parametrize("components", ["component", AXES, {"mu": -1, "share": 0, "loading": -2}])
def test_relabel_undoes_permutations_bit_for_bit(switched, components):
    draws = true_draws()
    mixed = result(permuted(draws, switched), log_density=RNG.normal(size=(4, 300)))
    found = inference.relabel(mixed, components)
    assert isinstance(found, MCMCResult)
    assert up_to_one_permutation(found.draws, draws)
    np.testing.assert_array_equal(found.stats["log_density"], mixed.stats["log_density"])
    assert np.max(found.summary().rhat) < 1.02
    if switched is not EVERYWHERE:
        assert np.max(mixed.summary().rhat) > 1.1


def particles(draws, switched):
    """A result of smc whose chains of the last move have the given draws."""
    steps = ("num_possible", "num_decisive", "num_ancestors", "temperature", "acceptance_rate")
    mixed = permuted(draws, switched)
    return SMCResult(
        draws={name: x.reshape(1, -1, *x.shape[2:]) for name, x in mixed.items()},
        stats={"log_density": RNG.normal(size=(1, mixed["scale"].size))},
        log_evidence=np.float64(0.0),
        standard_error=np.float64(0.1),
        steps={name: np.full(3, 1000.0) for name in steps}
        | {name: np.zeros(3, int) for name in ("num_undefined", "num_divergent")},
        num_chains=len(switched),
        sites=SITES,
    )


def test_particles_whose_labels_switch_are_told_and_matched():
    draws = true_draws(30, 20)
    switched = by_chain([*itertools.permutations(range(3))] * 5, 20)
    told = " ".join(str(particles(draws, switched).summary()).split())
    assert 'relabel(result, {"loading": 0, "mu": 0, "share": 0})' in told
    assert "independent draws" not in told  # chains that keep their order are no fault
    found = inference.relabel(particles(draws, switched), "component")
    assert isinstance(found, SMCResult)
    in_chains = {name: np.asarray(x) for name, x in found.chains().items()}
    assert up_to_one_permutation(in_chains, draws)
    assert not found.summary().problems
    assert inference.evidence(found).log_evidence == 0.0
    assert "one order" not in str(inference.evidence(found))


def two_orders(x):
    """Normal distributions at two orders of two means, each with the evidence 1/2."""
    means = jnp.array([[-5.0, 5.0], [5.0, -5.0]])
    terms = -0.5 * jnp.sum((x["mu"][None] - means) ** 2, 1)
    return jax.nn.logsumexp(terms) - jnp.log(4 * jnp.pi)


def test_bridges_say_what_draws_in_one_order_leave_out():
    """Within 4.5 standard errors: fails by chance once in 10^5 runs."""
    model = ppl.from_density(two_orders, {"mu": jnp.zeros(2)})
    rng = np.random.default_rng(1)
    orders = rng.permuted(np.tile([-5.0, 5.0], (4, 250, 1)), axis=-1)
    draws = {"mu": (orders + rng.normal(size=orders.shape)).astype(np.float32)}
    whole = MCMCResult(draws, {}, None, sites=(("mu", False, ()),))
    matched = inference.evidence(inference.relabel(whole, {"mu": 0}), model)
    assert abs(matched.log_evidence + np.log(2)) < 4.5 * matched.standard_error < 0.5
    (told,) = matched.problems
    assert "one mode of 2." in told
    assert told.endswith("add the logarithm of 2 factorial, 0.6931.")
    found = inference.evidence(whole, model)
    assert abs(found.log_evidence) < 4.5 * found.standard_error < 0.5
    assert not found.problems


def test_draws_without_a_switch_stay_as_they_are():
    draws = true_draws()
    found = inference.relabel(result(draws), "component")
    for name, leaf in draws.items():
        np.testing.assert_array_equal(found.draws[name], leaf)


def test_overlapping_components_have_the_least_loss():
    """All permutations of few draws, one by one: none has a lower loss."""
    rng = np.random.default_rng(3)
    mu = np.array([0.0, 1.0]) + 0.6 * rng.normal(size=(1, 9, 2))
    found = np.asarray(inference.relabel(result({"mu": mu}), {"mu": 0}).draws["mu"])

    def loss(x):
        return np.log(x[0].var(0)).sum()

    swaps = itertools.product([False, True], repeat=9)
    every = [loss(np.where(np.array(swap)[None, :, None], mu[..., ::-1], mu)) for swap in swaps]
    np.testing.assert_allclose(loss(found), min(every), rtol=1e-6)


def test_assignments_get_the_new_numbers_of_their_components():
    """Each observation keeps the mean of its component; else predictions are of another one."""
    draws = true_draws()
    mixed = permuted(draws, WITHIN)
    z = RNG.integers(0, 3, size=(4, 300, 5))
    # Component k of the mixed draws is component WITHIN[..., k] of the true ones.
    mixed["z"] = np.take_along_axis(np.argsort(WITHIN, -1), z.reshape(4, 300, 5), -1)
    found = inference.relabel(result(mixed), "component", assignments="z").draws
    own = np.take_along_axis(np.asarray(found["mu"]), np.asarray(found["z"]), -1)
    np.testing.assert_array_equal(own, np.take_along_axis(draws["mu"], z, -1))
    assert found["z"].dtype == mixed["z"].dtype
    back = np.asarray(found["mu"])[0, 0].argsort()[draws["mu"][0, 0].argsort().argsort()]
    np.testing.assert_array_equal(np.asarray(found["z"]), back[z])
    halves = {"mu": mixed["mu"][..., :2], "z": mixed["z"] == 1}
    both = inference.relabel(result(halves), {"mu": 0}, ["z"]).draws["z"]
    assert both.dtype == bool


def test_assignments_are_never_forgotten():
    draws = {**true_draws(1, 5), "z": np.tile([0, 2, 1], (1, 5, 1)), "n": np.full((1, 5), 7)}
    words = r"draws of 'z' are integers from 0 to 2.*assignments=\['z'\], else assignments=\[\]"
    with pytest.raises(ValueError, match=words):
        inference.relabel(result(draws), "component")
    same = inference.relabel(result(draws), "component", assignments=[]).draws["z"]
    np.testing.assert_array_equal(same, draws["z"])
    for wrong, words in [
        ("t", "no site is called 't'"),
        ("n", "from 0 to 2 and no axis"),
        ("mu", ""),
    ]:
        with pytest.raises(ValueError, match=f"assignments: .*{words}"):
            inference.relabel(result(draws), "component", assignments=[wrong])
    with pytest.raises(TypeError, match="names of sites"):
        inference.relabel(result(draws), "component", {"z": 0})  # pyright: ignore[reportArgumentType]


def test_matrices_are_permuted_along_both_axes():
    mu = MEANS + 0.1 * RNG.normal(size=(2, 50, 3))
    move = np.arange(9.0).reshape(3, 3) + 0.1 * RNG.normal(size=(2, 50, 3, 3))
    order = [2, 0, 1]
    mixed_mu = mu.copy()
    mixed_move = move.copy()
    mixed_mu[1] = mu[1][:, order]
    mixed_move[1] = move[1][:, order][:, :, order]
    mixed = MCMCResult({"part": {"mu": mixed_mu}, "move": mixed_move}, {}, None)
    found = inference.relabel(mixed, {"part.mu": 0, "move": (0, 1)}).draws
    # Which of the two chains keeps its order is arbitrary.
    back = [0, 1, 2] if np.array_equal(found["part"]["mu"], mu) else order
    np.testing.assert_array_equal(found["part"]["mu"], mu[..., back])
    np.testing.assert_array_equal(found["move"], move[:, :, back][..., back])


@pytest.mark.parametrize(
    ("components", "words"),
    [
        ("team", "no site has a dimension 'team'; there are 'component', 'item'"),
        ({}, "at least one site"),
        ({"tau": 0}, "no site is called 'tau'; there are"),
        ({"mu": 1}, r"shape \(3,\), so there is no axis 1"),
        ({"scale": 0}, r"shape \(\), so there is no axis 0"),
        ({"loading": (0, 0)}, "different axes"),
        ({"mu": 0, "loading": 1}, "axis 0 of 'mu' has 3, axis 1 of 'loading' has 2"),
    ],
)
def test_wrong_components_are_refused(components, words):
    with pytest.raises(ValueError, match=f"relabel: components.*{words}"):
        inference.relabel(result(true_draws(1, 5)), components)


def test_other_mistakes_are_refused():
    draws = true_draws(1, 5)
    with pytest.raises(TypeError, match="result must be a result of mcmc or smc, got"):
        inference.relabel(draws, "component")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="axes by site"):
        inference.relabel(result(draws), 0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="an axis or several"):
        inference.relabel(result(draws), {"mu": 0.5})  # pyright: ignore[reportArgumentType]
    square = result({"move": RNG.normal(size=(1, 5, 2, 2))})
    with pytest.raises(ValueError, match="several axes of components"):
        inference.relabel(square, {"move": (0, 1)})
    draws["mu"][0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="draws of 'mu' are not finite"):
        inference.relabel(result(draws), "component")


CALL = 'inference.relabel(result, {"loading": 0, "mu": 0, "share": 0})'


@pytest.mark.parametrize("switched", [BETWEEN, WITHIN])
def test_the_summary_names_label_switching(switched):
    found = result(permuted(true_draws(), switched)).summary().problems
    assert len(found) == 1
    assert "This looks like label switching" in found[0]
    assert "If the model is symmetric in these entries" in found[0]
    assert CALL in found[0]
    assert "Raise" not in found[0]


def test_the_summary_names_sites_with_as_many_entries():
    """A spread that all components have in common looks as if it did not switch."""
    draws = permuted(true_draws(), BETWEEN)
    draws["spread"] = RNG.normal(size=(4, 300, 3))
    found = result(draws).summary().problems
    assert CALL in found[0]
    assert "for each component (spread has as many entries), or order" in found[0]
    draws["slope"] = RNG.normal(size=(4, 300, 2, 3))
    assert "(slope and spread have as many entries)" in result(draws).summary().problems[0]


def test_the_summary_names_assignments_that_switch():
    draws = permuted(true_draws(), BETWEEN)
    draws["z"] = np.argsort(BETWEEN, -1)[..., [0, 2, 1, 1]]
    found = result(draws).summary().problems
    assert len(found) == 1
    assert f'{CALL[:-1]}, assignments=["z"])' in found[0]
    assert "nan" not in found[0]


def test_chains_that_stand_still_are_no_label_switching():
    """Each chain at a place of its own: no permutation mends that."""
    mu = RNG.normal(size=(4, 1, 3)) * np.ones((4, 300, 1))
    found = MCMCResult({"mu": mu}, {}, None).summary()
    assert "label" not in "\n".join(found.problems)
    assert "(>1000)" in found.problems[0]
    assert str(found).count(">1000") == 4


def test_unequal_modes_that_match_are_no_label_switching():
    """Two normal modes at (0, 5) and (5, 0), of which the second has a third of the weight."""
    rng = np.random.default_rng(1)
    offsets = 0.5 * rng.normal(size=(4, 500, 2))
    is_second = np.arange(4) >= 2
    mu = offsets + np.where(is_second[:, None, None], [5.0, 0.0], [0.0, 5.0])
    standard = -0.5 * (offsets**2).sum(-1) / 0.5**2
    equal = MCMCResult({"mu": mu}, {"log_density": standard}, None).summary().problems
    assert len(equal) == 1
    assert "looks like label switching" in equal[0]
    lower = standard - np.log(3) * is_second[:, None]
    unequal = "\n".join(MCMCResult({"mu": mu}, {"log_density": lower}, None).summary().problems)
    assert "not permutations of each other" in unequal
    assert "looks like label" not in unequal
    assert "look for several modes" in unequal
    means = lower.mean(1)
    low, high = (int(x) for x in re.findall(r"of chain (\d)", unequal))
    assert low >= 2 > high
    assert f"{means[low]:.4g} of chain {low}, {means[high]:.4g} of chain {high}" in unequal


def test_other_scalars_keep_their_advice():
    draws = permuted(true_draws(), BETWEEN)
    draws["scale"] += 9.0 * np.arange(4)[:, None]
    draws["empty"] = np.zeros((4, 300, 0, 3))
    found = "\n".join(result(draws).summary().problems)
    assert CALL in found
    assert "look for several modes" in found


def noise(*shape):
    return np.random.default_rng(5).normal(size=(4, 1000, *shape))


SECOND = np.arange(4)[:, None, None] >= 2
WALK = np.cumsum(noise(4), 1)


@pytest.mark.parametrize(
    "draws",
    [
        {"mu": 0.1 * noise(3) + np.where(SECOND, [-4.0, 0.0, 5.0], [-4.0, 0.0, 7.0])},
        {"mu": 0.1 * noise(3) + np.where(SECOND, [0.0, 0.0, 5.0], [-4.0, 4.0, 5.0])},
        {"theta": 0.3 * noise(2) + np.where(SECOND, 3.0, -3.0)},
        {"x": 0.1 * noise() + 3.0 * SECOND[..., 0]},
        {"theta": WALK},
        {"theta": 0.05 * np.cumsum(noise(20), 1)},
        {"theta": 0.02 * np.cumsum(noise(2), 1) + noise(2)},
        {"theta": noise(8) * np.exp(0.1 * np.cumsum(noise(), 1))[..., None]},
    ],
)
def test_other_disagreement_is_no_label_switching(draws):
    found = MCMCResult(draws, {}, None).summary()
    assert np.max(found.rhat) > 1.01
    assert "label" not in "\n".join(found.problems)
