"""Words that a pattern's last `*` does not free: they make a command another one than was granted. Pure.

Such words load code or settings that they name, choose another root or interpreter, write or delete a file that they
name, skip what the owner of a repository has set up, or lead out of the roots. A command with one of them is granted
as the exact line.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple


class Apart(NamedTuple):
    """Options of one program that a pattern does not cover."""

    letters: str = ""
    valued: str = ""  # other letters that take a value: what follows one in its word is no option
    names: str = ""  # without dashes, in small letters
    shortened: bool = False  # the program takes names that are cut short
    one_dash: bool = False  # a name may have one dash


_PYTEST = Apart(
    "cop",
    "kmnrW",
    "configfile rootdir confcutdir basetemp overrideini junitxml logfile debug pdbcls covconfig covreport tx px "
    "rsyncdir",
)
_JEST = (
    "config rootdir roots preset setupfiles setupfilesafterenv globalsetup globalteardown testenvironment env "
    "testrunner runner reporters resolver transform coveragedirectory outputfile cachedirectory projects watchplugins "
    "testresultsprocessor testsequencer snapshotserializers modulenamemapper modulepaths moduledirectories "
    "prettierpath dependencyextractor haste filter"
)
_VITEST = (
    "config configloader root dir environment globalsetup reporter outputfile coverage typecheck browser workspace "
    "project runner execargv snapshotenvironment attachmentsdir ui open api"
)
_GO = (
    "o c overlay modfile pkgdir ldflags gcflags asmflags gccgoflags compiler buildmode mod cpuprofile memprofile "
    "coverprofile blockprofile mutexprofile trace outputdir test work"
)
_MYPY = (
    "configfile pythonexecutable installtypes cachedir junitxml customtypeshed customtypingmodule shadowfile pdb "
    "quickstartfile cachemap anyexprsreport coberturaxmlreport htmlreport linecountreport linecoveragereport "
    "lineprecisionreport txtreport xmlreport xslthtmlreport xslttxtreport"
)
_TSC = (
    "project p build b outdir outfile out declarationdir rootdir rootdirs baseurl plugins generatetrace "
    "generatecpuprofile tsbuildinfofile init maproot sourceroot"
)
_ESLINT = (
    "config plugin rulesdir resolvepluginsrelativeto parser format outputfile cachelocation cachefile init ignorepath "
    "inspectconfig mcp"
)
_COMMIT = (
    "reusemessage reeditmessage file template edit author date gpgsign noverify pathspecfromfile interactive patch "
    "resetauthor trailer fixup squash"
)
_TABLE = {
    "pytest": _PYTEST,
    "unittest": Apart("t", "kps", "topleveldirectory", shortened=True),
    "ruff": Apart("o", "", "config outputfile cachedir"),
    "mypy": Apart("", "cmp", _MYPY, shortened=True),
    "black": Apart("", "cltW", "config"),
    "isort": Apart("", "flmopPst", "settingspath settingsfile settings sp virtualenv condaenv configroot "
                   "resolveallconfigs src srcpath", shortened=True),
    "flake8": Apart("", "j", "config appendconfig requireplugins enableextensions outputfile tee format",
                    shortened=True),
    "tsc": Apart("", "", _TSC, one_dash=True),
    "eslint": Apart("cfo", "", _ESLINT),
    "prettier": Apart("", "", "config plugin pluginsearchdir ignorepath cachelocation parser"),
    "jest": Apart("c", "imtuwo", _JEST),
    "vitest": Apart("cr", "t", _VITEST),
    "cargo": Apart("CZ", "jpF", "manifestpath targetdir outdir artifactdir lockfilepath target config"),
    "go": Apart("", "", _GO, one_dash=True),
    "git add": Apart("ef", "", "force edit pathspecfromfile chmod", shortened=True),
    "git commit": Apart("cCFtenSp", "mu", _COMMIT, shortened=True),
}  # fmt: skip
_PATHS_OF_ITS_OWN = frozenset({"git add", "git commit"})  # git takes none outside the repository


def apart(words: Sequence[str], free: int, inside: Sequence[str] = ()) -> str:
    """Give the first word that a pattern does not free, of those from `free` on; empty where it frees them all.

    `inside` are the folders beneath which an absolute path may lie.
    """
    known = _of_program(words)
    for word in words[free:]:
        if word.startswith("@"):  # a file with further arguments
            return word
        if word.startswith("-"):
            if known is not None and _is_apart(word, known[1]):
                return word
            _, equals, value = word.partition("=")
            operand = value if equals else ""
        else:
            operand = word
        if (known is None or known[0] not in _PATHS_OF_ITS_OWN) and leads_out(operand, inside):
            return word
    return ""


def leads_out(path: str, inside: Sequence[str]) -> bool:
    """Say whether a path may lead out of some folders; a relative one starts in one of them."""
    if ".." in path.split("/") or path.startswith("~"):
        return True
    if not path.startswith("/"):
        return False
    real = f"{posixpath.normpath(path)}/"
    return not any(real.startswith(f"{folder}/") for folder in inside)


def _of_program(words: Sequence[str]) -> tuple[str, Apart] | None:
    """Find the row of a command: by its program, by the module that an interpreter runs, by git's subcommand."""
    name = posixpath.basename(words[0])
    if name.startswith("python") and len(words) > 2:
        name = words[2]
    elif name == "git" and len(words) > 1:
        name = f"git {words[1]}"
    found = _TABLE.get(name)
    return None if found is None else (name, found)


def _is_apart(word: str, known: Apart) -> bool:
    if word.startswith("--") or (known.one_dash and len(word) > 1):
        name = word.lstrip("-").partition("=")[0].replace("-", "").replace("_", "").lower()
        return _is_named(name.partition(".")[0], known) if name else False
    for letter in word[1:]:
        if letter in known.letters:
            return True
        if letter in known.valued:
            return False
    return False


def _is_named(name: str, known: Apart) -> bool:
    names = known.names.split()
    return name in names or (known.shortened and any(item.startswith(name) for item in names))
