"""Everything generated for the distributions: `python -m tests.distributions [--pictures]`.

In this order, as each needs the one before:

1. the stub `distributions/__init__.pyi`, out of the files in the chapters' folders, and the names
   in `distributions/common/peer_names.py`, out of the table of other libraries' names;
2. the pages in `docs/distributions`, out of docstrings and the table of cases;
3. pictures of densities that are missing, or with `--pictures` all of them.
"""

import sys

from tests.distributions import stub

if __name__ == "__main__":
    stub.write()
    from tests.distributions import pages  # imports all families, by the names in the stub

    pages.write(all_pictures="--pictures" in sys.argv)
