"""
Builds the source distribution and the wheel, installs that with each extra into an empty environment, and tries it.

    make wheels                            every extra but the large ones, ray and dask
    make wheels ARGS="--only cli ui"       those two
    make wheels ARGS="--only ray dask"     the large ones
    make sbom                              lists what each extra installs, as CycloneDX, in build/sbom

The environments are in build/wheels.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS, BILLS = ROOT / "build" / "wheels", ROOT / "build" / "sbom"
LARGE = ("ray", "dask", "all")


def main() -> int:
    """Return 1 if something cannot be built, installed or used."""
    extras = [
        "",
        *tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"],
    ]
    parser = argparse.ArgumentParser(prog="make wheels", description="Build, install and try wheels.")
    parser.add_argument("--only", nargs="+", choices=extras, metavar="EXTRA", help=", ".join(extras[1:]))
    parser.add_argument("--sbom", action="store_true", help="list what is installed instead of trying it")
    given = parser.parse_args()
    shutil.rmtree(WHEELS, ignore_errors=True)
    wheel = built()
    verdicts: dict[str, str] = {}
    for extra in given.only or [each for each in extras if each not in LARGE]:
        try:
            python = installed(wheel, extra)
            verdicts[extra or "(none)"] = listed(python, extra) if given.sbom else tried(python, extra)
        except subprocess.CalledProcessError as error:
            verdicts[extra or "(none)"] = f"failed: {' '.join(map(str, error.cmd))}"
    print(*(f"{name:11} {verdict}" for name, verdict in verdicts.items()), sep="\n")  # noqa: T201 - it is a program
    return int(any(verdict.startswith("failed") for verdict in verdicts.values()))


def built() -> Path:
    """Build the source distribution, and the wheel from that; return the wheel."""
    run(sys.executable, "-m", "build", "--outdir", WHEELS, ROOT)
    (wheel,) = WHEELS.glob("*.whl")
    return wheel


def installed(wheel: Path, extra: str) -> Path:
    """Install *wheel* with *extra* into an empty environment; return its interpreter."""
    environment = WHEELS / (extra or "none")
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", environment)
    run(*pip, "install", f"{wheel}[{extra}]" if extra else wheel)
    return environment / "bin" / "python"


def tried(python: Path, extra: str) -> str:
    """Run the program of *extra*."""
    run(python, "-W", "error", Path(__file__).with_name("extras.py"), extra)
    return "works"


def listed(python: Path, extra: str) -> str:
    """Write down all that is installed with *extra*, from the metadata that it was installed with."""
    BILLS.mkdir(parents=True, exist_ok=True)
    bill = BILLS / f"weft{f'-{extra}' if extra else ''}.cdx.json"
    options = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--output-reproducible")
    run(sys.executable, "-m", "cyclonedx_py", "environment", *options, "--output-file", bill, python)
    return str(bill.relative_to(ROOT))


def run(*command: object) -> None:
    """Run a program; raise CalledProcessError if it fails."""
    subprocess.run([str(each) for each in command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
