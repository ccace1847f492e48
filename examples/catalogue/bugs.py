"""The classics of BUGS: twelve models with data and published posteriors.

`CLASSICS` holds them by name. The originals are in Spiegelhalter, Thomas, Best and Gilks (1996),
BUGS 0.5 Examples, volume 1.

    from examples.catalogue.bugs import CLASSICS
    classic = CLASSICS["pumps"]
    posterior = ppl.condition(classic.model, classic.observed)
    result = inference.mcmc(jax.random.key(0), posterior, *classic.args)
    classic.published["alpha"]
"""

from examples.catalogue import bugs_counts, bugs_items, bugs_normal

_AREAS = (bugs_normal, bugs_counts, bugs_items)
CLASSICS = {classic.name: classic for area in _AREAS for classic in area.CLASSICS}
