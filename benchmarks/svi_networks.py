"""How fast is variational inference with networks, beside NumPyro and a loop by hand?

    autoencoder   64 pixels, codes of 10, networks of Equinox of 64 units, batches of 100 of 1,500
    mixture       a mixture autoencoder, its class summed out, with networks of Equinox; all rows
    topics        ProdLDA with networks of Flax NNX, batch normalization and dropout, batches of 200
                  of 1,000 documents

The three tools have the same networks, sizes of batches and Adam(1e-2), in float32, on the CPU:

    ppl      `inference.svi`
    numpyro  `SVI.run` without its bar, networks by `eqx_module` and `nnx_module`
    by hand  the loss in plain JAX, optax, and one `lax.scan` under `jit`

    first    seconds of the first call, of 1,000 steps, in a fresh process after its imports: all
             that is traced, compiled and run; ours with one draw and its weight
    step     microseconds of a step of the compiled loop: ours in calls of up to 4,096 steps;
             NumPyro's `svi.update` in a `lax.scan` under `jit`, which its interface does not offer
    cpu      the same in time of processors, of all threads: other work on the machine matters less
    loss     mean over the last 200 of 1,000 steps

The tools take turns, in an order that is turned around from round to round. Figures are medians
over rounds. Ratios are those of the other tool's times to ours: more than 1 is in favor of ppl.

    python benchmarks/svi_networks.py [rounds] [case ...]
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

STEPS, LAST = 1_000, 200
TOOLS = ("ppl", "numpyro", "by hand")


class Fit(NamedTuple):
    """One tool's fit.

    Attributes:
        call: Function of a seed, which returns the losses of all steps.
        make_loop: Function that returns a function which takes all steps by a compiled loop.
    """

    call: Callable[[int], Any]
    make_loop: Callable[[], Callable[[], Any]]


def ours(model: Any, *args: Any, guide: Any, batch: Any = None) -> Fit:
    """The fit by `inference.svi`."""
    import jax

    import inference
    from inference.drivers.svi_problem import make_problem
    from inference.variational.elbo import ELBO
    from inference.variational.svi_loop import fit

    def call(seed: int) -> Any:
        settings = {"guide": guide, "batch": batch, "num_steps": STEPS, "num_draws": 1}
        return -inference.svi(jax.random.key(seed), model, *args, **settings).elbos

    def make_loop() -> Callable[[], Any]:
        key = jax.random.key(0)
        problem = make_problem(key, model, args, {}, guide, None, 1, ELBO(), batch)
        more = {"tolerance": None, "init": "uniform", "on_progress": lambda *_: None}
        state = fit(key, problem, num_steps=1, state=None, **more).state
        return lambda: fit(key, problem, num_steps=STEPS, state=state, **more)

    return Fit(call, make_loop)


def numpyros(model: Any, guide: Any, *args: Any, has_classes: bool = False) -> Fit:
    """NumPyro's fit."""
    import jax
    import numpyro
    from jax import lax
    from numpyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO

    objective = TraceEnum_ELBO() if has_classes else Trace_ELBO()
    svi = SVI(model, guide, numpyro.optim.Adam(1e-2), objective)

    def call(seed: int) -> Any:
        fit = svi.run(jax.random.key(seed), STEPS, *args, progress_bar=False)
        return np.asarray(jax.block_until_ready(fit).losses)

    def make_loop() -> Callable[[], Any]:
        state = svi.init(jax.random.key(0), *args)

        @jax.jit
        def steps(state: Any, *args: Any) -> Any:
            return lax.scan(lambda state, _: svi.update(state, *args), state, length=STEPS)

        return lambda: jax.block_until_ready(steps(state, *args))

    return Fit(call, make_loop)


def by_hand(parameters: Any, statistics: Any, loss: Any, *args: Any) -> Fit:
    """The loop that one writes by hand.

    `loss` is a function of parameters, statistics, a key and `args`, which returns the next
    statistics as well.
    """
    import jax
    import optax
    from jax import lax

    optimizer = optax.adam(1e-2)
    evaluate = jax.value_and_grad(loss, has_aux=True)

    @jax.jit
    def run(key: Any, *args: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            parameters, statistics, of_optimizer = state
            (value, statistics), gradient = evaluate(parameters, statistics, key, *args)
            updates, of_optimizer = optimizer.update(gradient, of_optimizer)
            parameters = optax.apply_updates(parameters, updates)
            return (parameters, statistics, of_optimizer), value

        start = parameters, statistics, optimizer.init(parameters)
        return lax.scan(step, start, jax.random.split(key, STEPS))

    def call(seed: int) -> Any:
        return np.asarray(jax.block_until_ready(run(jax.random.key(seed), *args))[1])

    return Fit(call, lambda: lambda: call(1))


NUM_IMAGES, IMAGES, PIXELS, CODES, UNITS = 1_500, 100, 64, 10, 64


def autoencoder(tool: str) -> Fit:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), 4)
    decoder = eqx.nn.MLP(CODES, PIXELS, width_size=UNITS, depth=1, key=keys[0])
    encoder = eqx.nn.MLP(PIXELS, 2 * CODES, width_size=UNITS, depth=1, key=keys[1])
    shades = jax.nn.sigmoid(jax.random.normal(keys[2], (NUM_IMAGES, 3)) @ jnp.eye(3, PIXELS) * 9)
    pixels = (jax.random.uniform(keys[3], shades.shape) < shades).astype(jnp.int32)

    def batch(key: Any, pixels: Any) -> Any:
        return (pixels[jax.random.randint(key, (IMAGES,), 0, len(pixels))],)

    def normal(net: Any, x: Any) -> Any:
        loc, log_scale = jnp.split(jax.vmap(net)(x.astype(jnp.float32)), 2, axis=1)
        return loc, jnp.exp(log_scale)

    if tool == "ppl":
        import distributions as dist
        import ppl

        def model(key: Any, pixels: Any) -> None:
            decode = ppl.module(key, decoder, name="decoder")

            def images(key: Any) -> None:
                prior = dist.Normal(jnp.zeros((len(pixels), CODES)), 1.0)
                code = ppl.sample(key, prior, name="code")
                of_pixels = dist.Bernoulli(logits=jax.vmap(decode)(code))
                ppl.sample(key, of_pixels, name="pixels")

            observed = ppl.condition(images, {"pixels": pixels})
            ppl.scale(observed, NUM_IMAGES / len(pixels))(key)

        def guide(key: Any, pixels: Any) -> None:
            encode = ppl.module(key, encoder, name="encoder")
            normals = lambda key: ppl.sample(key, dist.Normal(*normal(encode, pixels)), name="code")  # noqa: E731
            ppl.scale(normals, NUM_IMAGES / len(pixels))(key)

        return ours(model, pixels, guide=guide, batch=batch)
    if tool == "numpyro":
        import numpyro
        import numpyro.distributions as dist
        from numpyro.contrib.module import eqx_module

        def their_guide(pixels: Any) -> None:
            encode = eqx_module("encoder", encoder)
            with numpyro.plate("images", NUM_IMAGES, subsample_size=IMAGES) as rows:
                code = dist.Normal(*normal(encode, pixels[rows])).to_event(1)
                numpyro.sample("code", code)

        def their_model(pixels: Any) -> None:
            decode = eqx_module("decoder", decoder)
            with numpyro.plate("images", NUM_IMAGES, subsample_size=IMAGES) as rows:
                code = numpyro.sample("code", dist.Normal(jnp.zeros(CODES), 1.0).to_event(1))
                of_pixels = dist.Bernoulli(logits=jax.vmap(decode)(code)).to_event(1)
                numpyro.sample("pixels", of_pixels, obs=pixels[rows])

        return numpyros(their_model, their_guide, pixels)

    nets, static = eqx.partition((encoder, decoder), eqx.is_inexact_array)

    def loss(nets: Any, _: None, key: Any, pixels: Any) -> Any:
        encode, decode = eqx.combine(nets, static)
        of_rows, of_code = jax.random.split(key)
        (pixels,) = batch(of_rows, pixels)
        pixels = pixels.astype(jnp.float32)
        loc, scale = normal(encode, pixels)
        noise = jax.random.normal(of_code, loc.shape)
        code = loc + scale * noise
        logits = jax.vmap(decode)(code)
        fit = jnp.sum(pixels * logits - jax.nn.softplus(logits))
        divergence = jnp.sum(0.5 * (code**2 - noise**2) - jnp.log(scale))
        return (divergence - fit) * NUM_IMAGES / len(pixels), None

    return by_hand(nets, None, loss, pixels)


NUM_CLASSES, FEATURES, FEW_CODES, ROWS, NARROW = 4, 6, 3, 100, 16


def mixture(tool: str) -> Fit:
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    decoder = eqx.nn.MLP(FEW_CODES, FEATURES, width_size=NARROW, depth=1, key=jax.random.key(10))
    encoder = eqx.nn.MLP(
        FEATURES, 2 * FEW_CODES, width_size=NARROW, depth=1, key=jax.random.key(11)
    )
    start = jax.random.normal(jax.random.key(12), (NUM_CLASSES, FEW_CODES))
    labels = jnp.arange(ROWS) % NUM_CLASSES
    pixels = jax.random.normal(jax.random.key(13), (NUM_CLASSES, FEATURES))[labels]
    pixels = pixels + 0.1 * jax.random.normal(jax.random.key(14), pixels.shape)

    if tool == "ppl":
        import distributions as dist
        import ppl

        def images(key: Any, pixels: Any) -> None:
            decode = ppl.module(key, decoder, name="decoder")
            centers = ppl.param(start, name="centers")

            def image(key: Any, pixels: Any) -> None:
                logits = jnp.zeros(NUM_CLASSES)
                k = ppl.sample(key, dist.Categorical(logits=logits), name="class")
                code = ppl.sample(key, dist.Normal(centers[k], 0.3), name="code")
                y = lambda key: ppl.sample(key, dist.Normal(decode(code), 0.1), name="y")  # noqa: E731
                ppl.condition(y, {"y": pixels})(key)

            by_image = ppl.marginalize(image, ["class"])
            jax.vmap(by_image)(jax.random.split(key, len(pixels)), pixels)

        def encode(key: Any, pixels: Any) -> None:
            net = ppl.module(key, encoder, name="encoder")

            def code(key: Any, pixels: Any) -> None:
                loc, log_scale = jnp.split(net(pixels), 2)
                ppl.sample(key, dist.Normal(loc, jnp.exp(log_scale)), name="code")

            jax.vmap(code)(jax.random.split(key, len(pixels)), pixels)

        return ours(images, pixels, guide=encode)
    if tool == "numpyro":
        import numpyro
        import numpyro.distributions as dist
        from numpyro.contrib.module import eqx_module

        def their_model(pixels: Any) -> None:
            decode = eqx_module("decoder", decoder)
            centers = numpyro.param("centers", start)
            with numpyro.plate("images", len(pixels)):
                of_class = dist.Categorical(logits=jnp.zeros(NUM_CLASSES))
                k = numpyro.sample("class", of_class, infer={"enumerate": "parallel"})
                code = numpyro.sample("code", dist.Normal(centers[k], 0.3).to_event(1))
                y = dist.Normal(jax.vmap(decode)(code), 0.1).to_event(1)
                numpyro.sample("y", y, obs=pixels)

        def their_guide(pixels: Any) -> None:
            net = eqx_module("encoder", encoder)
            loc, log_scale = jnp.split(jax.vmap(net)(pixels), 2, axis=1)
            with numpyro.plate("images", len(pixels)):
                numpyro.sample("code", dist.Normal(loc, jnp.exp(log_scale)).to_event(1))

        return numpyros(their_model, their_guide, pixels, has_classes=True)

    nets, static = eqx.partition((encoder, decoder), eqx.is_inexact_array)

    def log_normal(x: Any, loc: Any, scale: Any) -> Any:
        return jax.scipy.stats.norm.logpdf(x, loc, scale)

    def loss(parameters: Any, _: None, key: Any, pixels: Any) -> Any:
        nets, centers = parameters
        encode, decode = eqx.combine(nets, static)
        loc, log_scale = jnp.split(jax.vmap(encode)(pixels), 2, axis=1)
        noise = jax.random.normal(key, loc.shape)
        code = loc + jnp.exp(log_scale) * noise
        by_class = jnp.sum(log_normal(code[:, None], centers, 0.3), axis=2)
        prior = jnp.sum(jax.nn.logsumexp(by_class - jnp.log(NUM_CLASSES), axis=1))
        fit = jnp.sum(log_normal(pixels, jax.vmap(decode)(code), 0.1))
        entropy = -jnp.sum(log_normal(noise, 0.0, 1.0) - log_scale)
        return -(prior + fit + entropy), None

    return by_hand((nets, start), None, loss, pixels)


TOPICS, WORDS, LENGTH, DOCUMENTS, PART = 5, 50, 60, 1_000, 200


def topics(tool: str) -> Fit:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(TOPICS), np.ones(WORDS // TOPICS))
    true = blocks * rng.gamma(1.0, size=blocks.shape) + 0.01
    shares = rng.dirichlet(np.full(TOPICS, 0.2), DOCUMENTS)
    probs = shares @ (true / true.sum(1)[:, None])
    documents = jnp.asarray(np.stack([rng.multinomial(LENGTH, p) for p in probs]))
    rngs = nnx.Rngs(0)
    encoder = nnx.Sequential(
        nnx.Linear(WORDS, 32, rngs=rngs),
        nnx.softplus,
        nnx.Dropout(0.2),
        nnx.Linear(32, 2 * TOPICS, rngs=rngs),
        nnx.BatchNorm(2 * TOPICS, rngs=rngs),
    )
    normalize = nnx.BatchNorm(WORDS, use_scale=False, rngs=rngs)
    start = 0.1 * jax.random.normal(jax.random.key(1), (TOPICS, WORDS))

    def batch(key: Any, counts: Any, _: Any) -> Any:
        return counts[jax.random.randint(key, (PART,), 0, len(counts))], key

    def split(out: Any) -> Any:
        loc, log_scale = jnp.split(out, 2, axis=1)
        return loc, jnp.exp(log_scale)

    if tool == "ppl":
        import distributions as dist
        import ppl

        def with_statistics(key: Any, net: Any, x: Any, noise: Any, name: str) -> Any:
            f = ppl.module(key, net, name=name)
            nnx.update(f, ppl.state(nnx.state(f, nnx.BatchStat), name=f"{name}_stats"))
            if noise is None:
                f.eval()
            has_noise = name == "encoder" and noise is not None
            keys = {"rngs": nnx.Rngs(dropout=noise)} if has_noise else {}
            out = f(x, **keys)
            ppl.update_state(nnx.state(f, nnx.BatchStat), name=f"{name}_stats")
            return out

        def prodlda(key: Any, counts: Any, noise: Any = None) -> None:
            words_by_topic = ppl.param(start, name="topics")
            prior = dist.Normal(jnp.zeros((len(counts), TOPICS)), 1.0)
            z = ppl.sample(key, prior, name="z")
            mix = jax.nn.softmax(z) @ words_by_topic
            logits = with_statistics(key, normalize, mix, noise, "decoder")
            of_words = dist.Multinomial(LENGTH, logits=logits)
            words = lambda key: ppl.sample(key, of_words, name="words")  # noqa: E731
            ppl.condition(words, {"words": counts})(key)

        def topics_of(key: Any, counts: Any, noise: Any = None) -> None:
            out = with_statistics(key, encoder, jnp.log1p(counts), noise, "encoder")
            ppl.sample(key, dist.Normal(*split(out)), name="z")

        return ours(prodlda, documents, None, guide=topics_of, batch=batch)
    if tool == "numpyro":
        import numpyro
        import numpyro.distributions as dist
        from numpyro.contrib.module import nnx_module

        def their_model(counts: Any) -> None:
            net = nnx_module("decoder", normalize)
            words_by_topic = numpyro.param("topics", start)
            with numpyro.plate("documents", DOCUMENTS, subsample_size=PART) as rows:
                z = numpyro.sample("z", dist.Normal(jnp.zeros(TOPICS), 1.0).to_event(1))
                logits = net(jax.nn.softmax(z) @ words_by_topic)
                of_words = dist.Multinomial(LENGTH, logits=logits)
                numpyro.sample("words", of_words, obs=counts[rows])

        def their_guide(counts: Any) -> None:
            net = nnx_module("encoder", encoder)
            noise = nnx.Rngs(dropout=numpyro.prng_key())
            with numpyro.plate("documents", DOCUMENTS, subsample_size=PART) as rows:
                out = net(jnp.log1p(counts[rows]), rngs=noise)
                numpyro.sample("z", dist.Normal(*split(out)).to_event(1))

        return numpyros(their_model, their_guide, documents)

    nets = nnx.split((encoder, normalize), nnx.Param, nnx.BatchStat, ...)
    definition, weights, stats, rest = nets

    def loss(parameters: Any, stats: Any, key: Any, counts: Any) -> Any:
        weights, words_by_topic = parameters
        encode, decode = nnx.merge(definition, weights, stats, rest, copy=True)
        of_rows, of_mask, of_code = jax.random.split(key, 3)
        counts, _ = batch(of_rows, counts, None)
        loc, scale = split(encode(jnp.log1p(counts), rngs=nnx.Rngs(dropout=of_mask)))
        noise = jax.random.normal(of_code, loc.shape)
        z = loc + scale * noise
        logs = jax.nn.log_softmax(decode(jax.nn.softmax(z) @ words_by_topic))
        ways = jax.lax.lgamma(LENGTH + 1.0) - jnp.sum(jax.lax.lgamma(counts + 1.0), axis=1)
        fit = jnp.sum(counts * logs) + jnp.sum(ways)
        divergence = jnp.sum(0.5 * (z**2 - noise**2) - jnp.log(scale))
        return divergence - fit, nnx.state((encode, decode), nnx.BatchStat)

    return by_hand((weights, start), stats, loss, documents)


CASES = {"autoencoder": autoencoder, "mixture": mixture, "topics": topics}


def times(function: Any, *arguments: Any) -> list[float]:
    """Seconds of a call, and seconds of processors."""
    began = time.perf_counter()
    of_processors = time.process_time()
    function(*arguments)
    return [time.perf_counter() - began, time.process_time() - of_processors]


def first_call(case: str, tool: str) -> list[float]:
    """Times of the first call in a process of its own."""
    command = [sys.executable, __file__, "first", case, tool]
    done = subprocess.run(command, check=True, capture_output=True, env=os.environ, text=True)
    return json.loads(done.stdout)


def measure(case: str, rounds: int) -> dict[str, list[float]]:
    """Medians by tool of the times of the first call and of a step, and the loss."""
    fits = {tool: CASES[case](tool) for tool in TOOLS}
    losses = {tool: float(np.mean(fit.call(0)[-LAST:])) for tool, fit in fits.items()}
    loops = {tool: fit.make_loop() for tool, fit in fits.items()}
    for loop in loops.values():
        loop()
    rows: dict[str, list[list[float]]] = {tool: [] for tool in TOOLS}
    for number in range(rounds):
        order = TOOLS if number % 2 == 0 else TOOLS[::-1]
        first = {tool: first_call(case, tool) for tool in order}
        steps = {tool: [x / STEPS * 1e6 for x in times(loops[tool])] for tool in order}
        for tool in TOOLS:
            rows[tool].append(first[tool] + steps[tool])
    return {
        tool: [statistics.median(x) for x in zip(*rows[tool], strict=True)] + [losses[tool]]
        for tool in TOOLS
    }


def main(rounds: int, cases: list[str]) -> None:
    import jax
    import jaxlib
    import numpyro

    versions = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpyro {numpyro.__version__}"
    print(f"Python {sys.version.split()[0]}, {versions}, {jax.default_backend()}, {rounds} rounds")
    print(f"{'':24}{'first s':>9}{'cpu s':>9}{'step us':>9}{'cpu us':>9}{'loss':>11}", flush=True)
    for case in cases:
        rows = measure(case, rounds)
        for tool, (first, of_first, step, of_step, loss) in rows.items():
            numbers = f"{first:9.2f}{of_first:9.2f}{step:9.0f}{of_step:9.0f}{loss:11.1f}"
            print(f"{case:15}{tool:9}{numbers}", flush=True)
        mine, *others = rows.values()
        for tool, theirs in zip(TOOLS[1:], others, strict=True):
            ratios = "".join(f"{b / a:9.2f}" for a, b in zip(mine[:4], theirs[:4], strict=True))
            print(f"{tool + ' / ppl':24}{ratios}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["first"]:
        case, tool = sys.argv[2:]
        print(json.dumps(times(CASES[case](tool).call, 0)))
    else:
        rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        main(rounds, sys.argv[2:] or list(CASES))
