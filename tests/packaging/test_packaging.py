"""The distribution: its files, its extras, and the modules that importing it imports."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from extras import PROGRAMS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OTHERS = """
import sys
sys.modules["typing_extensions"] = None  # msgspec uses it if it is there
before = set(sys.modules)
from weft import Policy, Runner, Workflow, step
names = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(name for name in names - set(sys.stdlib_module_names) if not name.startswith("_")))
"""


def test_weft_imports_msgspec_and_the_standard_library_alone() -> None:
    said = subprocess.run([sys.executable, "-c", OTHERS], capture_output=True, text=True, check=True).stdout

    assert said.split() == ["msgspec", "weft"]


def test_every_extra_has_a_program_that_shows_that_it_works() -> None:
    assert PROGRAMS.keys() - {""} == PROJECT["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize("extra", ["ui", "schedules", "otel", "prometheus"])
def test_the_program_of_an_extra_ends_without_a_word(extra: str) -> None:
    said = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("extras.py"), extra],
        capture_output=True,
        text=True,
        check=True,
    )

    assert [line for line in said.stderr.splitlines() if "could not find the function" not in line] == []


def test_all_has_every_extra() -> None:
    extras = PROJECT["project"]["optional-dependencies"]

    assert extras["all"] == [f"weft[{','.join(name for name in extras if name != 'all')}]"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of a wheel that is built here."""
    folder = tmp_path_factory.mktemp("wheel")
    program = f"import hatchling.build; hatchling.build.build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_every_file_of_the_package_and_no_other(files: set[str]) -> None:
    listed = subprocess.run(["git", "ls-files", "src/weft"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    if not listed.stdout:
        pytest.skip("this is not a checkout")
    package = {name.removeprefix("src/") for name in listed.stdout.splitlines()}

    assert {name for name in files if ".dist-info/" not in name} == package
    assert {"weft/py.typed", "weft/cli/starter/orders.py.txt"} <= files
