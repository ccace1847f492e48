"""Normal priors of models: proof that a log prior density is quadratic."""

from inference.models.score_degrees import ScoreDegrees
from ppl.harvest.survey import describe, describe_all
from ppl.transforms.unconstrain import Unconstrained


def check_normal(target: Unconstrained, where: str, remedy: str) -> None:
    """Checks that the log prior density is quadratic, on unconstrained space.

    Args:
        target: Target, of whose latent sites it is.
        where: Beginning of messages.
        remedy: End of messages, what to do.

    Raises:
        ValueError: if it is not, or does not depend on a site by a square.
    """
    degrees = ScoreDegrees(target)
    latent = degrees.latent
    alone = {path: degrees.of_prior([path]) for path in latent}
    for path, degree in degrees.of_prior(latent).items():
        if degree.cause is None:
            continue
        operation, variables = degree.cause
        guilty = [site for site in latent if alone[site][path].cause is not None]
        if path in guilty:
            found = f"site {describe(path)} is not normal a priori"
        else:
            sites = guilty or [x for x in latent if x in variables and x != path]
            found = (
                f"site {describe(path)} is not normal a priori jointly with {describe_all(sites)}"
            )
        raise ValueError(
            f"{where} {found}: its log density on unconstrained space is not quadratic, by the "
            f"operation {operation!r}. {remedy}."
        )
    for path in latent:
        if max(degree.degree for degree in alone[path].values()) < 2:
            raise ValueError(
                f"{where} site {describe(path)} has an improper prior, from which nothing can be "
                "drawn. Give it a normal prior, or use Slice() or NUTS()."
            )
