"""What make is told to run by its arguments asks, whatever goals a rule allows."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from handrail.errors import SettingsFault
from handrail.policy import ToolFacts, World, decide
from handrail.policy.rules import Rule, check_examples
from handrail.policy.shell import read_line
from handrail.words import Decision, Risk, Root, Touch, TouchKind

ALLOW, ASK = Decision.ALLOW, Decision.ASK
NAMES = """make gmake /usr/bin/make nice npm pnpm yarn bun cmake rake just cargo go ninja uv poetry mvn ./gradlew gradle
    ant task composer meson"""
WORLD = World(
    ToolFacts("run_command", "exec", Risk.MEDIUM),
    (Root("workspace", "/ws", writable=True),),
    enable=frozenset({"exec"}),
)
# Each makes `ran` in the folder, though the makefile there says nothing of it.
RUNNING = [
    "make --eval='x:;touch ran' x",
    "make --eval 'x:;touch ran' x",
    "make --ev='$(shell touch ran)' all",
    "make -f ELSEWHERE/other.mk",
    "make -fELSEWHERE/other.mk",
    "make -skf ELSEWHERE/other.mk",
    "make -sk -f ../elsewhere/other.mk",
    "make --file=ELSEWHERE/other.mk",
    "make --fil ELSEWHERE/other.mk",
    "make --makefile=ELSEWHERE/other.mk",
    "make all -C ELSEWHERE",
    "make -C../elsewhere",
    "make --directory=ELSEWHERE",
    "make -f - < ELSEWHERE/other.mk",
    "make -f /dev/stdin < ELSEWHERE/other.mk",
    "make SHELL=ELSEWHERE/shell all",
    "make SHELL:=ELSEWHERE/shell all",
    "make all .SHELLFLAGS='-c \"touch ran\"'",
    "make MAKEFLAGS='--eval=$(shell touch ran)'",
    "make 'USED=$(shell touch ran)' all",
    "make 'USED=`touch ran`' all",
    "make 'ANY:=$(shell touch ran)' all",
    "make 'USED!=touch ran' all",
    "make '$(shell touch ran)=1' all",
    "make 'USED=x; touch ran; echo' all",
    "make 'USED=x\ntouch ran' all",
    "MAKEFILES=ELSEWHERE/other.mk make",
]
# Each runs what stands in another folder.
ELSEWHERE = [
    "npm --prefix ELSEWHERE test",
    "npm --prefix=../elsewhere test",
    "npm test --prefi ../elsewhere",
    "npm -prefix ELSEWHERE test",
    "npm ---prefix ELSEWHERE test",
    "npm -C ../elsewhere run test",
    "npm -C=../elsewhere test",
    "npm -sC ELSEWHERE test",
    "cmake -S ELSEWHERE -B out",
    "cmake -S../elsewhere -B out",
    "cmake -B out -S sub/../../elsewhere",
    "cmake --build ELSEWHERE",
    "cmake --build sub -- -f ELSEWHERE/Makefile",
    "cmake --build sub -- --eval='$(shell touch ../ran)'",
]
MORE = [
    "make -E 'x:;touch ran' x",
    "make -kE 'x:;touch ran' x",
    "make -f ~/other.mk",
    "make -f",
    "make -I /tmp/x all",
    "make -C sub/../../x",
    "make CC=./mine",
    "make CXX=./mine LD=./mine",
    "make CFLAGS=-fplugin=./x.so",
    "make CPPFLAGS=-fplugin=../evil.so x.o",
    "make LDLIBS=-Wl,-plugin,./x.so",
    "make TARGET_ARCH=-fplugin=./x.so",
    "make OUTPUT_OPTION=-fplugin=./x.so",
    "make MAKE=./mine",
    "make PATH=.:/bin",
    "SHELL=./mine make all",
    "make 'a|b' 'a&b' 'a(b)'",
    "gmake --eval=x",
    "/usr/bin/make --eval=x",
    "nice make --eval=x",
    "npm --script-shell=./mine test",
    "npm run build --script-s ./mine",
    "npm test --node-options=--require=./x.js",
    "pnpm test --config.script-shell=./mine",
    "yarn build --script-shell ./mine",
    "cmake -P x.cmake",
    "cmake -E rm -rf x",
    "rake -e 'system(1)'",
    "just --shell ./mine build",
    "npm -script-shell=./mine test",
    "cmake -B/tmp/build",
    "cmake -S ~/x -B build",
    "pnpm -C .. test",
    "pnpm --dir=/tmp/x test",
    "pnpm test -C /tmp/x",
    "yarn --cwd .. build",
    "yarn build --cwd=../x",
    "yarn ../x build",
    "bun --cwd ../x test",
    "just -d .. build",
    "just -d../x -f justfile build",
    "just -nf ../justfile build",
    "just --justfile=/tmp/justfile build",
    "just --working-directory ../x --justfile justfile build",
    "just -f - build",
    "just ../build",
    "just -g build",
    "just --choose --chooser ./mine",
    "cargo build --manifest-path ../x/Cargo.toml",
    "cargo run --manifest-path=/tmp/x/Cargo.toml",
    "cargo -C .. build",
    "cargo -qC../x build",
    "go -C .. build",
    "go build -C=../x .",
    "go build --C /tmp/x .",
    "go build -modfile=../go.mod .",
    "go build -overlay ../all.json .",
    "go build --toolexec=./mine .",
    "go vet -vettool=./mine .",
    "go build -ldflags=-extld=./mine .",
    "rake -f ../Rakefile test",
    "rake -sf/tmp/Rakefile",
    "rake --rakefile=../Rakefile test",
    "rake -I ../lib test",
    "rake -f",
    "ninja -C ../build",
    "uv sync --directory ..",
    "poetry -C ../x run y",
    "mvn -f ../pom.xml test",
    "./gradlew -p .. test",
    "gradle --init-script=/tmp/init.gradle test",
    "ant -buildfile ../build.xml",
    "task -d .. build",
    "composer --working-dir=.. install",
    "mvn -file ../pom.xml test",
    "mvn --fil=../pom.xml test",
    "meson compile -vC ..",
    "gradle -qp .. test",
    "gradle -qp.. test",
    "gradle --include-build .. test",
    "cmake -DCMAKE_TOOLCHAIN_FILE=../x .",
    "cmake -DCMAKE_TOOLCHAIN_FILE:FILEPATH=/tmp/x .",
    "cmake -D CMAKE_PROJECT_INCLUDE=../x .",
    "cmake -DCMAKE_PROJECT_my_lib_INCLUDE_BEFORE=sub/../../x .",
    "cmake -DCMAKE_PROJECT_TOP_LEVEL_INCLUDES=~/x .",
    "bun test -r ../x.js",
    "bun --preload ../x.js test",
    "bun --config=../bunfig.toml test",
    "task -g test",
    "task -vg test",
    "task --global test",
    "rake -g test",
    "rake -sg test",
    "rake --system test",
    "rake --sys test",
    "rake -C .. test",
    "rake -sC.. test",
    "rake --directory=.. test",
]
CALM = [
    "make",
    "make all",
    "make -j4 test V=1 PREFIX=out",
    "make -j 8 -l 2.5 -O -Otarget -k check",
    "make -C sub BUILD=release",
    "make -f Makefile all",
    "make -f build/rules.mk install DESTDIR=/tmp/out",
    "make --file=build/rules.mk --directory sub --no-print-directory",
    "make -o a.o -W b.c -n",
    "make --dry-run --keep-going --environment-overrides",
    "npm test",
    "npm run build -- --flag",
    "npm install --global x",
    "pnpm test",
    "yarn build",
    "cmake --build build",
    "cmake -S . -B build -DX=1",
    "rake test",
    "just build",
    "npm --prefix sub test",
    "npm -C sub/deep run build",
    "npm --prefix=./sub ci",
    "npm run build -- --prefix .. -C ..",
    "npm -s test",
    "npm install ../beside",
    "pnpm -C packages/a test",
    "pnpm --dir ./a -r build",
    "yarn --cwd packages/a build",
    "yarn add ../beside",
    "yarn sub/x build",
    "just -d sub -f sub/justfile build",
    "just --justfile=tools/justfile --working-directory . build",
    "just target=../out build ../x",
    "cargo build --manifest-path sub/Cargo.toml --release",
    "cargo test --target-dir ../target -- -C ..",
    "cargo -C sub build",
    "go -C sub build -o ../bin/x .",
    "go build -o=/tmp/x -mod=mod ./...",
    "go build -ldflags='-s -w' .",
    "rake -f sub/Rakefile -sT",
    "rake --rakefile build.rb -I lib test",
    "cmake --build build --target install -j 4",
    "cmake --build build -- -j4 all",
    "cmake -S sub -B sub/build -DCMAKE_INSTALL_PREFIX=/usr -DDEPS=../deps",
    "cmake --install build --prefix /usr/local",
    "mvn -fae -f sub/pom.xml test",
    "./gradlew -p sub -Pfoo=../x test",
    "uv sync --directory sub",
    "ninja -C build -v",
    "mvn -fn -file sub/pom.xml --fail-at-end test",
    "meson compile -vC build",
    "gradle -qp sub --include-build sub/plugins test",
    "cmake -DCMAKE_TOOLCHAIN_FILE=cmake/x.cmake -DCMAKE_PROJECT_INCLUDE=x.cmake .",
    "bun test -r ./x.js --preload sub/y.js",
    "task -v build",
    "rake -C sub -s test",
]


def judged(line: str) -> Decision:
    """What is decided where a rule allows each program with any words."""
    rules = tuple(Rule(ALLOW, f"rules.{name}", "proc.exec", f"{name} *") for name in NAMES.split())
    parts = read_line(line).parts
    touches = tuple(Touch(TouchKind.PROC_EXEC, part.text, words=part.words, doubt=part.doubt) for part in parts)
    return decide(touches, replace(WORLD, rules=rules)).decision


@pytest.mark.parametrize("line", [*RUNNING, *ELSEWHERE, *MORE])
def test_an_allowed_program_that_is_told_to_run_something_else_asks(line: str) -> None:
    """The words that follow are free, and what they make a program run is not."""
    assert judged(line.replace("ELSEWHERE", "/elsewhere")) is ASK


@pytest.mark.parametrize("line", CALM)
def test_an_allowed_program_with_goals_and_settings_of_its_own_does_not_ask(line: str) -> None:
    """Goals, folders and files beneath, and variables that name no program."""
    assert judged(line) is ALLOW


@pytest.mark.parametrize("line", RUNNING)
def test_what_asks_would_have_run(tmp_path: Path, line: str) -> None:
    """With make itself: none of these lines asks for nothing."""
    if shutil.which("make") is None and not os.environ.get("CI"):
        pytest.skip("make is not installed")
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    (work / "Makefile").write_text("all:\n\t@echo $(USED) $(ANY) >/dev/null\n")
    for name in ("other.mk", "Makefile"):
        (elsewhere / name).write_text(f"all other:\n\t@touch {work}/ran\n$(shell touch {work}/ran)\n")
    (elsewhere / "shell").write_text(f'#!/bin/sh\ntouch {work}/ran\nexec /bin/sh "$@"\n')
    (elsewhere / "shell").chmod(0o755)
    shown = subprocess.run(
        ["bash", "-c", line.replace("ELSEWHERE", str(elsewhere))],
        cwd=work, capture_output=True, text=True, timeout=20, check=False,
        # Without a SHELL of the caller make has none yet when it reads its own command line.
        env={"PATH": os.environ["PATH"], "SHELL": "/bin/sh"},
    )  # fmt: skip
    assert (work / "ran").exists(), shown


@pytest.mark.parametrize("line", ELSEWHERE)
def test_what_asks_would_have_run_what_stands_elsewhere(tmp_path: Path, line: str) -> None:
    """With npm and cmake themselves: each line takes its code from the other folder, or from its own words."""
    program = line.split()[0]
    if shutil.which(program) is None and not os.environ.get("CI"):
        pytest.skip(f"{program} is not installed")
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    (work / "sub").mkdir(parents=True)
    elsewhere.mkdir()
    ran = f"touch {work}/ran"
    cache = "CMAKE_PROJECT_NAME:STATIC=x\nCMAKE_GENERATOR:INTERNAL=Unix Makefiles\nCMAKE_MAKE_PROGRAM:FILEPATH=make\n"
    for folder, does in ((work, "true"), (work / "sub", "true"), (elsewhere, ran)):
        (folder / "package.json").write_text(f'{{"scripts": {{"test": "{does}"}}}}')
        (folder / "CMakeLists.txt").write_text(f"project(x NONE)\nexecute_process(COMMAND {does})\n")
        (folder / "Makefile").write_text(f"all:\n\t@{does}\n")
        (folder / "CMakeCache.txt").write_text(cache if folder != work else "")
    shown = subprocess.run(
        ["bash", "-c", line.replace("ELSEWHERE", str(elsewhere))],
        cwd=work, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "npm_config_update_notifier": "false"},
    )  # fmt: skip
    assert (work / "ran").exists(), shown


def test_the_examples_of_a_rule_know_what_it_does_not_cover() -> None:
    """`misses` may name it, and `matches` may not; for a rule that denies it is the other way round."""
    allows = Rule(ALLOW, "rules.1", "proc.exec", "make *")
    code, goal = ("make --eval=x",), ("make all",)
    check_examples(replace(allows, matches=goal, misses=code))
    with pytest.raises(SettingsFault, match="should match 'make --eval=x' and does not"):
        check_examples(replace(allows, matches=code))
    with pytest.raises(SettingsFault, match="should not match 'make all' and does"):
        check_examples(replace(allows, misses=goal))
    check_examples(replace(allows, effect=Decision.DENY, matches=(*goal, *code)))
    check_examples(Rule(ALLOW, "rules.1", "proc.exec", "sed -n *", matches=("sed -n '1p' a.txt", "sed -n '1p")))


# ── where the line stands ────────────────────────────────────────────────────────────────────

MOVED = [
    "cd .. && make test",
    "cd ..; make test",
    "cd .. || true; gmake test",
    "(cd ..; npm test)",
    "cd ../elsewhere && nice make test",
    'cd "$X" && make test',
    "cd /abs && make test",
    "cd ~/x && cargo test",
    "cd && make test",
    "cd - && make test",
    "cd sub && cd ../.. && make test",
    "cd sub/../.. && make test",
    "pushd .. && make test",
    "popd; make test",
    "command cd .. && make test",
    "command -p -- cd .. && make test",
    "time cd ..; make test",
    "bash -c 'cd .. && make test'",
    "cd .. && bash -c 'make test'",
    "if cd ..; then make test; fi",
    "for i in 1 2; do make test; cd ..; done",
    "while make test; do cd ..; done",
    "cd .. && ./gradlew test",
    "cd .. && go test ./...",
]
STAYED = [
    "cd sub && make test",
    "cd sub; make test",
    "(cd sub/deep && npm test)",
    "cd ./sub && cd .. && make test",
    "cd . && make test",
    "make test && cd ..",
    "for i in 1 2; do make test; done; cd ..",
    "command -v make && make test",
    "time make test",
    "cd .. && ls",
    "bash -c 'cd ..'; make test",
]


@pytest.mark.parametrize("line", MOVED)
def test_a_program_that_runs_what_stands_in_its_folder_asks_where_the_line_has_left_it(line: str) -> None:
    """As it does where an option leads it there."""
    doubted = [part.words[0] for part in read_line(line).parts if "takes code from elsewhere" in part.doubt]
    assert len(doubted) == 1
    assert doubted[0].removeprefix("./") in ("make", "gmake", "npm", "cargo", "gradlew", "go")


@pytest.mark.parametrize("line", STAYED)
def test_a_program_in_a_folder_beneath_does_not_ask(line: str) -> None:
    """Nor does what is run before the line goes elsewhere, nor what runs nothing of the folder."""
    assert [part for part in read_line(line).parts if "elsewhere" in part.doubt] == []
