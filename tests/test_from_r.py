"""The page for R, where R is installed with reticulate and posterior."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BLOCK = re.compile(r"^```r\n(.*?)^```", re.DOTALL | re.MULTILINE)
HAS_PACKAGES = "stopifnot(requireNamespace('reticulate'), requireNamespace('posterior'))"


@pytest.mark.slow
def test_the_page_runs(tmp_path):
    rscript = shutil.which("Rscript")
    if rscript is None or subprocess.run([rscript, "-e", HAS_PACKAGES], check=False).returncode:
        pytest.skip("R, reticulate or posterior is not installed")
    code = "".join(BLOCK.findall((ROOT / "docs/from-r.md").read_text()))
    ends = "stopifnot(posterior::nchains(draws) == 4, dim(draws$theta) == 8)\n"
    (tmp_path / "page.R").write_text(code + ends)
    environment = os.environ | {"RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [rscript, "page.R"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "leave-one-out, 8 observations" in done.stdout
