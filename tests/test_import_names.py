"""Import names: another `inference` on the path is an error in words; versions."""

import importlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import tomllib
import types

import pytest

from ppl.common.import_names import check_import_names

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("ppl", "distributions", "inference")
OTHER = "def predict(image):\n    return image\n"


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_has_the_version_of_its_distribution(name):
    module = importlib.import_module(name)
    assert module.__version__ == importlib.metadata.version("harvest-ppl")


@pytest.fixture
def not_imported(monkeypatch):
    """As if neither package had been imported yet."""
    monkeypatch.delitem(sys.modules, "inference")
    monkeypatch.delitem(sys.modules, "distributions")


@pytest.mark.usefixtures("not_imported")
def test_our_packages_pass():
    check_import_names()


@pytest.mark.usefixtures("not_imported")
@pytest.mark.parametrize("file", ["inference.py", "inference/__init__.py", "distributions.py"])
def test_a_file_in_front_on_the_path_is_named(monkeypatch, tmp_path, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(OTHER)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match="Rename it if it is yours") as caught:
        check_import_names()
    assert str(tmp_path / file) in str(caught.value)


@pytest.mark.usefixtures("not_imported")
def test_a_file_behind_ours_on_the_path_is_none_of_our_business(monkeypatch, tmp_path):
    (tmp_path / "inference.py").write_text(OTHER)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    check_import_names()


@pytest.mark.usefixtures("not_imported")
@pytest.mark.parametrize("folder", ["inference", "distributions"])
def test_a_folder_without_code_hides_nothing(monkeypatch, tmp_path, folder):
    (tmp_path / folder).mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    check_import_names()


def test_a_module_made_by_hand_passes(monkeypatch):
    monkeypatch.setitem(sys.modules, "inference", types.ModuleType("inference"))
    check_import_names()


@pytest.mark.parametrize("lines", ["import inference\nimport ppl", "import ppl\nimport inference"])
def test_a_script_beside_another_inference_fails_in_words(tmp_path, lines):
    (tmp_path / "inference.py").write_text(OTHER)
    (tmp_path / "script.py").write_text(f"{lines}\nprint(inference.mcmc)\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"ImportError: import ppl: Python takes the name 'inference' for {tmp_path}"
    )


def test_a_script_that_is_called_inference_fails_in_words(tmp_path):
    script = tmp_path / "inference.py"
    script.write_text("import ppl\nimport inference\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: import ppl: Python takes")


def test_the_files_of_a_release_have_one_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert importlib.metadata.version("harvest-ppl") == version
    if version.endswith(".dev0"):
        heading = f"## [Unreleased]\n\nTo become {version.removesuffix('.dev0')}.\n"
    else:
        heading = f"## [{version}] - 20"
    latest = re.split(r"^(?=## )", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1]
    assert latest.startswith(heading)
