"""What a sampler returns."""

import dataclasses
import json
import os
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_flatten_with_path

from inference.metric import LowRankMatrix
from inference.names import named_leaves
from inference.summary import Summary, summarize

_ARVIZ_NAMES = {
    "is_divergent": "diverging",
    "num_steps": "n_steps",
    "depth": "tree_depth",
    "is_truncated": "reached_max_treedepth",
    "log_density": "lp",
}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MCMCResult:
    """Draws of several chains and the statistics of the sampler that made them. A pytree.

    Attributes:
        draws: Values of the latent sites, ``(chain, draw, *shape)``; a scope is a dict in the dict.
        stats: Statistics of each transition, ``(chain, draw)``, by name: at least `is_divergent`,
            `energy`, `acceptance_rate`, `num_steps`, `log_density` (on unconstrained space) and
            `step_size`.
        inverse_mass_matrix: What warm-up has settled on, ``(chain, size)``,
            ``(chain, size, size)``, or a :class:`LowRankMatrix` with the chains in front, in the
            order of the leaves of unconstrained space.
    """

    draws: dict[str, Any]
    stats: dict[str, Any]
    inverse_mass_matrix: Any

    def summary(self) -> Summary:
        """Posterior means, quantiles and diagnostics of every scalar, as a table."""
        return summarize(self.draws, self.stats)

    def __repr__(self) -> str:
        num_chains, num_draws = np.shape(self.stats["is_divergent"])
        sites = ", ".join(f"{name} {np.shape(x)[2:]}" for name, x in named_leaves(self.draws))
        return f"MCMCResult({num_chains} chains x {num_draws} draws: {sites})"

    def to_arviz(self) -> Any:
        """The draws and statistics as ArviZ holds them.

        Returns:
            An ``arviz.InferenceData``, or with ArviZ 1.0 and newer an ``xarray.DataTree``, with the
            groups `posterior` and `sample_stats`. Names of nested sites are joined by dots.

        Raises:
            ImportError: if ArviZ is not installed.
        """
        try:
            import arviz
        except ImportError as error:
            raise ImportError("to_arviz needs ArviZ: pip install arviz") from error
        groups = {
            "posterior": dict(named_leaves(self.draws)),
            "sample_stats": {_ARVIZ_NAMES.get(name, name): x for name, x in self.stats.items()},
        }
        if int(arviz.__version__.split(".")[0]) >= 1:
            return arviz.from_dict(groups)
        return arviz.from_dict(posterior=groups["posterior"], sample_stats=groups["sample_stats"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the result to `path`, a NumPy ``.npz`` archive, under exactly that name."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        leaves = tree_flatten_with_path(fields)[0]
        arrays: dict[str, Any] = {json.dumps(list(map(_name, keys))): x for keys, x in leaves}
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "MCMCResult":
        """Reads what :meth:`save` has written.

        Raises:
            ValueError: if `path` holds something else.
        """
        fields: dict[str, Any] = {"draws": {}, "stats": {}}
        try:
            with np.load(path, allow_pickle=False) as archive:
                for name in archive.files:
                    *scopes, last = json.loads(name)
                    tree = fields
                    for scope in scopes:
                        tree = tree.setdefault(scope, {})
                    tree[last] = archive[name]
            if isinstance(matrix := fields.get("inverse_mass_matrix"), dict):
                fields["inverse_mass_matrix"] = LowRankMatrix(**matrix)
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{os.fspath(path)!r} is not a saved MCMCResult: {error}") from error


def _name(key: Any) -> str:
    """Of a part of a path: that of an item of a dict, or of a field."""
    return key.name if hasattr(key, "name") else key.key
