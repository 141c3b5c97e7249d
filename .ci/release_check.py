"""Release check: build, install the wheel into a fresh environment, run the tour from it, compare the metadata.

`make release-check` runs it. Each step prints one line; the first that fails ends the check with exit code 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
# Files that the installed package reads or promises; the rest of the source tree is compared as a whole.
NEEDED_IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "PKG-INFO")


def main() -> int:
    """Run every step; return the exit code."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory(prefix="handrail-release-") as folder:
        try:
            wheel, sdist = build(Path(folder))
            report("built", f"{wheel.name}, {sdist.name}")
            problems = [*check_metadata(wheel, project), *check_files(wheel, sdist), *check_changelog(project)]
            if problems:
                raise ReleaseError("\n".join(problems))
            report("metadata", "as in pyproject.toml, CHANGELOG.md and the source tree")
            install_and_run(wheel, Path(folder), project)
        except ReleaseError as error:
            sys.stderr.write(f"release check failed:\n{error}\n")
            return 1
    report("ready", f"{project['name']} {project['version']}")
    return 0


class ReleaseError(Exception):
    """A reason not to publish this state."""


def report(step: str, text: str) -> None:
    """Print one finished step."""
    sys.stdout.write(f"{step + ':':<11}{text}\n")
    sys.stdout.flush()


def build(folder: Path) -> tuple[Path, Path]:
    """Build the wheel and the source archive."""
    run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], ROOT)
    wheels = list(folder.glob("*.whl"))
    archives = list(folder.glob("*.tar.gz"))
    if len(wheels) != 1 or len(archives) != 1:
        raise ReleaseError(f"expected one wheel and one archive, found {[path.name for path in folder.iterdir()]}")
    return wheels[0], archives[0]


def check_metadata(wheel: Path, project: dict[str, object]) -> Iterable[str]:
    """Compare the wheel's metadata, which are validated on the way, with pyproject.toml."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(archive.read(f"{info}/METADATA"), validate=True)
        entries = archive.read(f"{info}/entry_points.txt").decode()
    scripts = project["scripts"]
    dependencies = project["dependencies"]
    extras = project["optional-dependencies"]
    assert isinstance(scripts, dict)
    assert isinstance(dependencies, list)
    assert isinstance(extras, dict)
    readme = (ROOT / "README.md").read_text(encoding="utf-8").strip()
    expected = {
        "name": (found.name, project["name"]),
        "version": (str(found.version), project["version"]),
        "summary": (found.summary, project["description"]),
        "requires-python": (str(found.requires_python), project["requires-python"]),
        "license": (found.license_expression, project["license"]),
        "classifiers": (sorted(found.classifiers or []), sorted(project["classifiers"])),  # type: ignore[call-overload]
        "extras": (sorted(found.provides_extra or []), sorted(extras)),
        "readme": ((found.description or "").strip(), readme),
        "dependencies": (
            sorted(str(item).lower() for item in found.requires_dist or [] if "extra ==" not in str(item.marker)),
            sorted(str(Requirement(item)).lower() for item in dependencies),
        ),
    }
    for name, (built, written) in expected.items():
        if built != written:
            yield f"{name}: the wheel says {built!r}, the project says {written!r}"
    for command, target in scripts.items():
        if f"{command} = {target}" not in entries:
            yield f"the command {command} is not in the wheel's entry points"
    if f"{info}/licenses/LICENSE" not in names:
        yield "the licence is not in the wheel"


def check_files(wheel: Path, sdist: Path) -> Iterable[str]:
    """Compare the packed files with the tracked source tree: nothing missing, nothing of the tests."""
    tracked = run(["git", "ls-files", "src/handrail"], ROOT).split()
    expected = {path.removeprefix("src/") for path in tracked}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    yield from (f"not in the wheel: {name}" for name in sorted(expected - packed))
    yield from (f"in the wheel, but not tracked by git: {name}" for name in sorted(packed - expected))
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    yield from (f"not in the source archive: {name}" for name in NEEDED_IN_SDIST if name not in inside)


def check_changelog(project: dict[str, object]) -> Iterable[str]:
    """Require a section of CHANGELOG.md for this version."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"(?m)^## {re.escape(str(project['version']))}\b", text):
        yield f"CHANGELOG.md has no section {project['version']}"


def install_and_run(wheel: Path, folder: Path, project: dict[str, object]) -> None:
    """Install the wheel alone, apart from this tree, and run the tour from it."""
    venv = folder / "venv"
    run([sys.executable, "-m", "venv", str(venv)], folder)
    python = str(venv / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    run(
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, str(wheel)],
        folder,
    )
    version = run([str(venv / "bin" / "handrail"), "version"], folder)
    if str(project["version"]) not in version:
        raise ReleaseError(f"`handrail version` says {version.strip()!r}, not {project['version']}")
    where = run([python, "-c", "import handrail; print(handrail.__file__)"], folder).strip()
    if not Path(where).is_relative_to(venv):
        raise ReleaseError(f"the tour would run from {where}, not from the wheel")
    report("installed", version.strip().splitlines()[0])
    tour = run([str(venv / "bin" / "handrail"), "tour", "--auto"], folder)
    if "That was the tour." not in tour:
        raise ReleaseError(f"the tour did not reach its end:\n{tour}")
    report("tour", f"{len(tour.splitlines())} lines, every station as it should be")


def run(command: list[str], folder: Path) -> str:
    """Run a command, without this tree on its path; return its output or raise what it said."""
    left_out = {"PYTHONPATH", "VIRTUAL_ENV", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"}
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
