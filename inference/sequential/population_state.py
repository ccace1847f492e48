"""States of populations as arrays by name, for files and for runs that go on."""

from collections.abc import Sequence

import numpy as np

from inference.common.state_leaves import State
from inference.sequential.moves import Particles
from inference.sequential.path_weights import Place
from inference.sequential.tempering import Population, Step


def step_columns(steps: Sequence[Step]) -> State:
    """Fields of steps by name, ``(step,)`` each."""
    return {name: np.array([getattr(x, name) for x in steps]) for name in Step._fields}


def state_of(population: Population) -> State:
    """Arrays of a population, from which :func:`population_of` makes it again."""
    return {
        **population.particles._asdict(),
        "whole": np.array(population.place.whole),
        "part": np.array(population.place.part),
        "lengths": np.array([len(x) for x in population.parents]),
        "parents": np.concatenate(population.parents),
        "parts": np.concatenate([np.zeros(0), *population.parts]),
        "roots": population.roots,
        "step_size": np.array(population.step_size),
        **{f"steps.{name}": x for name, x in step_columns(population.steps).items()},
    }


def population_of(state: State) -> Population:
    """Population whose arrays :func:`state_of` has given."""
    lengths = state["lengths"].tolist()
    columns = [state[f"steps.{name}"].tolist() for name in Step._fields]
    return Population(
        particles=Particles(*(state[name] for name in Particles._fields)),
        place=Place(int(state["whole"]), float(state["part"])),
        parents=_split(state["parents"], lengths),
        roots=state["roots"],
        parts=_split(state["parts"], lengths[:-1]),
        step_size=float(state["step_size"]),
        steps=[Step(*row) for row in zip(*columns, strict=True)],
    )


def _split(x: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray]:
    """Parts of an array, from its beginning on."""
    ends = np.cumsum(lengths, dtype=int)
    return [x[end - length : end] for length, end in zip(lengths, ends, strict=True)]
