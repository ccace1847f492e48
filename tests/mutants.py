"""Small wrong changes that the tests must notice (`make mutants`)."""

import sys

from tests import (
    mutants_of_distributions,
    mutants_of_inference,
    mutants_of_integrals,
    mutants_of_ppl,
    mutants_of_sums,
)
from tests.mutation import main

MUTANTS = (
    *mutants_of_ppl.MUTANTS,
    *mutants_of_sums.MUTANTS,
    *mutants_of_integrals.MUTANTS,
    *mutants_of_distributions.MUTANTS,
    *mutants_of_inference.MUTANTS,
)


if __name__ == "__main__":
    sys.exit(main(MUTANTS))
