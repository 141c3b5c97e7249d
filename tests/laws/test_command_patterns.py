"""How far a yes to a command reaches: what the table says, never more than the person was shown."""

from __future__ import annotations

import shlex
from dataclasses import replace
from random import Random

import pytest

from handrail.policy import ToolFacts, World, asked_for, decide, shell
from handrail.policy.command_patterns import NEVER, TABLE, pattern_of
from handrail.policy.grants import EXACT, coverage
from handrail.policy.patterns import words_match
from handrail.words import Decision, Grant, Risk, Root, Scope, Touch, TouchKind

TOOL = ToolFacts("run_command", "exec", Risk.MEDIUM)
ROOT = Root("workspace", "/ws", True)
WORLD = World(TOOL, roots=(ROOT,), enable=frozenset({"exec"}), now=100.0, run_id="r1", max_scope=Scope.ALWAYS)


def touches(line: str) -> tuple[Touch, ...]:
    """State the commands of a line as run_command does."""
    reading = shell.read_line(line)
    found = [Touch(TouchKind.PROC_EXEC, part.text, words=part.words, doubt=part.doubt) for part in reading.parts]
    if reading.doubt or not found:
        found.append(Touch(TouchKind.PROC_EXEC, line, doubt=reading.doubt or "nothing"))
    return tuple(found)


def granted(line: str, exact: str = "") -> Grant:
    """Say yes, always, to a line."""
    world = replace(WORLD, exact=exact)
    asked = touches(line)
    pairs = coverage(asked, world, asked_for(decide(asked, world).findings))
    return Grant("g1", "q1", Scope.ALWAYS, TOOL.name, "d", pairs, "r0", 1e9)


def runs(line: str, grant: Grant, **more: object) -> bool:
    """Whether a line runs without a question under a grant."""
    return decide(touches(line), replace(WORLD, grants=(grant,), **more)).decision is Decision.ALLOW  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("pytest -q tests", "pytest *"),
        ("pytest", "pytest *"),
        (".venv/bin/pytest -x", ".venv/bin/pytest *"),
        ("python -m pytest -q", "python -m pytest *"),
        (".venv/bin/python -m pytest", ".venv/bin/python -m pytest *"),
        ("npm test", "npm test"),
        ("npm run build", "npm run build"),
        ("ruff check .", "ruff check *"),
        ("git commit -m 'a b'", "git commit *"),
        ("cargo test --all", "cargo test *"),
        ("make test", "make test"),
        ("make", "make"),
    ],
)
def test_these_are_granted_as_a_pattern(line: str, pattern: str) -> None:
    """The words that stay are the command's own."""
    assert pattern_of(shlex.split(line)) == pattern


@pytest.mark.parametrize(
    "line",
    [
        *("bash build.sh", "sh -c 'pytest'", "python -c 'print(1)'", "python run.py", "node -e 1", "perl -e 1"),
        *("sudo pytest", "rm -rf x", "curl example.org", "ssh host pytest", "xargs pytest", "env pytest"),
        *("find . -exec pytest {} +", "timeout 5 pytest", "npx jest", "uv run pytest", "./pytest", "tools/pytest"),
        *(
            "../.venv/bin/pytest",
            "/tmp/pytest",
            "npm run build -- --watch",
            "npm test x",
            "npm install x",
            "npm run -h",
        ),
        *("git push", "git -c core.editor=x commit", "git reset --hard", "git clean -fd", "cargo run", "python -m pip"),
        *("make -f other", "make SHELL=/bin/x", "cargo --config x test", "go test -exec=x", "pip install x", ""),
    ],
)
def test_these_are_granted_as_the_exact_line_alone(line: str) -> None:
    """Shells, interpreters with code, what runs other programs, deletes or sends, and what no row names."""
    assert pattern_of(shlex.split(line)) == ""


def test_no_row_of_the_table_begins_with_what_is_never_widened() -> None:
    """But for an interpreter that is given the name of a module, which stays."""
    for row in TABLE:
        assert row[0] not in NEVER or (row[1] == "-m" and row[2] not in ("*", "NAME")), row
        assert "*" not in row[:-1]
        assert row[0] not in ("*", "NAME")


@pytest.mark.parametrize("row", TABLE, ids=" ".join)
def test_a_pattern_covers_what_it_reads_like_and_no_more(row: tuple[str, ...]) -> None:
    """Each is what the same words as a rule would match."""
    words = [*("job" if word == "NAME" else word for word in row if word != "*")]
    pattern = pattern_of(words)
    assert words_match(pattern, words)
    further = [*words, "=more"]
    assert pattern_of(further) == (pattern if row[-1] == "*" else "")
    assert words_match(pattern, further) == (row[-1] == "*")


# What a last `*` does not free, by the line that was granted: other code, settings, roots, files to write.
APART = {
    "pytest -q": """
        pytest -p evil
        pytest -pevil
        pytest -qp evil
        pytest -c evil.ini
        pytest -o addopts=-pevil
        pytest --rootdir=/x
        pytest --rootdir x
        pytest --confcutdir=x
        pytest --basetemp=src
        pytest @args
        pytest --junitxml=src/a.py
        pytest --log-file=a.py
        pytest --override-ini=addopts=x
        pytest --debug=a
        pytest ../other
        pytest /tmp/x
        pytest ~/x
        pytest --ignore=../x
        pytest --tx popen//python=x
        cd .. && pytest
        cd / && pytest
        cd ~ && pytest
        cd && pytest
        cd - && pytest
        cd -- .. ; pytest
        (cd ..; pytest)
        pytest; cd ..
        cd $X && pytest
        cd "$X"; pytest
        cd sub/../.. && pytest
        FOO=1 pytest
        PYTHONPATH=evil pytest
        PYTEST_ADDOPTS='-p evil' pytest
        PYTEST_PLUGINS=evil pytest
        export PYTEST_PLUGINS=evil; pytest
        export FOO=1 && pytest
        A=1; export A; pytest
        env A=1 pytest
        PATH=.:$PATH; pytest
        BASH_ENV=x pytest
        LD_PRELOAD=x pytest
        source x; pytest
        . ./x && pytest
        alias pytest=rm; pytest
        pytest() { rm -rf x; }; pytest
        hash -p /tmp/evil pytest; pytest
        pytest | tee x
        pytest $(cat x)
        pytest `cat x`
        pytest $X
        trap 'rm x' EXIT; pytest
        exec pytest
        command pytest
        pushd sub && pytest
        pytest >> ~/.bashrc
    """,
    "python -m pytest -q": """
        python -m pytest --rootdir x
        python -m pytest -p evil
        python -I -m pytest
        python3 -m pytest
        PYTHONSTARTUP=x python -m pytest
        python -m pytest.evil
    """,
    "npm test": """
        npm test -- --prefix x
        npm test --prefix x
        npm --prefix x test
        npm test --script-shell=./e
        NODE_OPTIONS='-r ./e' npm test
        npm_config_script_shell=./e npm test
        cd ../other && npm test
    """,
    "git commit -m x": """
        git commit -c core.editor
        git commit -C HEAD
        git -c core.editor=x commit -m y
        git commit -F x
        git commit -aF x
        git commit --fil=x
        git commit --no-verify -m x
        git commit -nm x
        git commit -S
        git commit -t x
        git commit --gpg-sign=x -m y
        git commit --author 'a <b@c>' -m x
        git commit -e
        GIT_EDITOR=x git commit
        GIT_DIR=x git commit -m x
        git -C other commit -m x
        EDITOR=./e git commit
        git commit --trailer a=b -m x
        git commit --pathspec-from-file=x -m y
    """,
    "git add .": """
        git add -f .env
        git add --force x
        git add --pathspec-from-file=x
        git add -e
    """,
    "ruff check .": """
        ruff check --config evil.toml
        ruff check -o x
        ruff --config x check
        ruff check --cache-dir=x
    """,
    "mypy .": """
        mypy --install-types
        mypy --python-executable ./e
        mypy --config-f x
        mypy @args
        mypy --html-report x
    """,
    "eslint .": """
        eslint -c evil.js .
        eslint --rulesdir evil
        eslint --format ./evil.js
        eslint --plugin x
    """,
    "prettier --check .": """
        prettier --plugin=./evil.js .
        prettier --config x .
    """,
    "jest": """
        jest --config x
        jest --rootDir=x
        jest --root-dir x
        jest --setupFiles ./e.js
        jest -c x
    """,
    "vitest run": """
        vitest run -c x
        vitest --root x
        vitest --typecheck.checker=./e
        vitest --outputFile.json=x
    """,
    "tsc --noEmit": """
        tsc -p ../x
        tsc --outDir src
        tsc --OUTDIR src
        tsc -outDir src
        tsc @args
        tsc --init
    """,
    "cargo build": """
        cargo build --manifest-path ../x/Cargo.toml
        cargo build --target-dir /x
        cargo build --config x
        RUSTC_WRAPPER=./e cargo build
        CARGO_HOME=x cargo build
        cargo build -Zunstable
        cargo build -vC x
    """,
    "cargo clippy": """
        cargo clippy -- -C linker=./e
        cargo clippy --out-dir x
    """,
    "go test ./...": """
        go test -o x
        go test -toolexec=./e
        go test --exec=./e
        go test -C ../x
        go test -ldflags=-extld=./e
        go test -coverprofile=a.go
        go test -test.cpuprofile=a.go
        GOFLAGS=-toolexec=./e go test
    """,
    "make test": """
        make test X=1
        make -C sub test
        make -f x test
        MAKEFLAGS=x make test
        SHELL=./e make test
    """,
}


@pytest.mark.parametrize(
    ("granted_line", "line"),
    [(key, line.strip()) for key, lines in APART.items() for line in lines.strip().splitlines()],
)
def test_a_pattern_does_not_cover_another_command_than_it_reads_like(granted_line: str, line: str) -> None:
    """Options that load code or settings, choose a root or write a file; variables; folders outside the roots."""
    grant = granted(granted_line, exact="the line")
    assert grant.touches[0][1] != "the line", "the line itself is granted as a pattern"
    assert runs(granted_line, grant)
    assert not runs(line, grant)


@pytest.mark.parametrize(
    ("granted_line", "line"),
    [
        ("pytest -q", "pytest -x -k 'a or b' -n 2 --maxfail=1 --tb=short tests/test_a.py::test_b -rA"),
        ("pytest -q", "pytest /ws/tests --lf"),
        ("pytest -q", "cd /ws/sub && pytest"),
        ("pytest -q", "cd sub/inner && pytest 2>&1 | tail -20"),
        ("git commit -m x", "git commit -am 'see ../other and @me' --amend --allow-empty"),
        ("git add .", "git add -A src ../tests"),
        ("ruff check .", "ruff check --fix --select E501 src"),
        ("cargo test", "cargo test --release -p shop -- --nocapture"),
        ("go test ./...", "go test -v -run TestA -count=1 ./shop"),
        ("mypy .", "mypy --strict -p shop"),
        ("tsc --noEmit", "tsc --strict --noEmit"),
    ],
)
def test_a_pattern_covers_ordinary_words(granted_line: str, line: str) -> None:
    """Else it would be no answer that lasts."""
    assert runs(line, granted(granted_line))


def test_a_line_of_several_commands_is_covered_only_if_each_is() -> None:
    """What runs without a question needs no yes; everything else needs its own."""
    grant = granted("pytest -q")
    assert grant.touches == (("proc.exec", "pytest *"),)
    assert runs("pytest tests/x.py 2>&1 | tail -20", grant)
    assert runs("cd shop && pytest", grant)
    for line in ("pytest && rm -rf x", "pytest; curl example.org", "pytest $(curl x)", "pytest | sh", "PATH=. pytest"):
        assert not runs(line, grant), line
    both = granted("ruff check . && pytest")
    assert runs("pytest -x", both)
    assert runs("ruff check src | cat", both)
    assert not runs("ruff format", both)


def test_an_exact_line_is_granted_as_a_whole() -> None:
    """Its digest binds the arguments and the files that it runs; without one nothing wider is offered."""
    assert granted("bash build.sh").touches == ()
    grant = granted("bash build.sh", exact="one")
    assert grant.touches == ((EXACT, "one"),)
    assert runs("bash build.sh", grant, exact="one")
    assert not runs("bash build.sh", grant, exact="two")
    assert not runs("bash build.sh", grant, exact="")


def test_a_pattern_does_not_cover_a_call_with_unusual_arguments() -> None:
    """Such as one that goes on in the background: its words are not all of it."""
    assert not runs("pytest", granted("pytest"), ordinary=False)


def test_a_grant_for_a_pattern_never_covers_a_line_with_another_command() -> None:
    """Random lines: commands that are granted, harmless ones and others, joined in every way."""
    known = ("pytest -q", "ruff check .", "npm test", "git commit -m x")
    harmless = ("cat a.txt", "tail -3", "cd src", "ls")
    others = (
        "rm x",
        "curl x.org",
        "bash a.sh",
        "python -c 1",
        "npm run deploy",
        "git push",
        "sudo pytest",
        "env pytest",
    )
    joints = (" && ", "; ", " | ", " || ", " & ", "\n")
    covered = 0
    for number in range(1500):
        random = Random(number)
        given = random.sample(known, random.randint(1, 2))
        grant = granted(" && ".join(given))
        chosen = [random.choice((*known, *harmless, *others)) for _ in range(random.randint(1, 4))]
        line = chosen[0] + "".join(random.choice(joints) + item for item in chosen[1:])
        line = random.choice((line, line, f"({line})", f"echo $({line})", f"timeout 5 {line}"))
        if runs(line, grant):
            covered += 1
            assert not set(chosen) & set(others), line
            assert set(chosen) & set(known) <= set(given), line
    assert covered > 50
