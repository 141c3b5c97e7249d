"""Which commands are plainly harmless, and which no rule allows."""

from __future__ import annotations

import shlex

import pytest

from attacks._shell_forbidden import ALL_FORBIDDEN, ALWAYS_ASKED, PERMITTED, TOGETHER
from attacks._shell_gate import judged
from handrail.policy.rules import Rule
from handrail.policy.shell import forbidden, forbidden_line, harmless, read_line
from handrail.words import Decision, Grant, Scope

HARMLESS = """ls -la
cat a b
grep -rn x .
rg -n x --glob '*.py'
find . -name '*.py' -type f -print
find . -exec grep -l x {} +
sort -k 2 -t , a
sort -rn
uniq -c
uniq -c a
sed -n 1,5p a
sed 's/a/b/g;5q' a
awk '{print $1, $NF}' a
awk -F: 'NR>1 && NF==3 {print $2}' a
jq .a b
date +%F
date -d yesterday +%F
printf '%s\\n' a
test -f a
[ a = b ]
[[ -n a ]]
read -r line
xargs -0 grep x
xargs
env
timeout 5 ls
nice -n 5 ls
bash -c 'ls | wc -l'
command -v ls
python3 --version
git rev-parse --show-toplevel
git branch --show-current
git remote -v
git config --get user.name
git --no-pager rev-parse HEAD
git --version
/usr/bin/ls
xxd a
tree -L 2
diff -u a b
which -a ls
set -euo pipefail"""
NOT_HARMLESS = """zapper
./ls
/tmp/ls
ls/
sort -o a b
sort --output=a b
sort --compress-program=a b
sort -T a b
uniq a b
uniq -- -a b
sed -i s/a/b/ a
sed 1e a
sed 'w a' b
sed s/a/b/e a
sed s/a/b/w a
sed -l 5p '1e x' a
sed -f a b
sed -n '1r a' b
awk 'BEGIN{system("a")}'
awk '{print > "a"}' b
awk '{print NR > 5}' b
awk '{print | "a"}' b
awk '"a" | getline'
awk -f a b
awk -i inplace 1 a
find . -delete
find . -exec rm {} +
find . -exec sh -c a \\;
find . -fprint a
find . -ok ls {} \\;
find a -exec sort + --compress-program=b {} \\;
xargs rm
xargs sort
xargs -I{} sh -c {}
xargs --process-slot-var=LD_PRELOAD ls
xargs --replace a ls
xargs -I a -I X sort X
nohup ls
env PATH=a ls
env -S a
timeout 5 rm a
bash a
bash -c 'ls > a'
bash -c 'ls; a'
bash -ic ls
sh -c '[[ a || b ]]'
zsh -c ls
python3 a
python3 -c a
perl -e a
node -e a
rg --pre a b
rg --hostname-bin=a b
rg -z a
rg --search-zip a
rg -r -- -z a
rg -r -- --search-zip a
date -r -- -s 1
tree -o a
date -s now
date 01010000
hostname a
diff -l a b
printf -v a b
printf %n a
test -v a
test a -a b
[ -v a ]
[[ -v a ]]
read a[1]
xxd a b
xxd -r a
tee a
cp a b
less a
man ls
vim a
git tag -l
git -c a=b rev-parse HEAD
git -C a rev-parse HEAD
git config a b
git remote add a b
git --exec-path=a rev-parse HEAD
eval ls
source a
exec ls
trap ls EXIT
alias a=b
export PATH=a
set -a
set -- a
sudo ls
ssh a ls
parallel ls
make
npm test
cargo --version
export LC_ALL=x"""


@pytest.mark.parametrize("command", HARMLESS.splitlines())
def test_commands_that_only_read_and_print_are_harmless(command: str) -> None:
    """By their names and their arguments."""
    assert harmless(shlex.split(command))


@pytest.mark.parametrize("command", NOT_HARMLESS.splitlines())
def test_commands_that_may_write_or_run_something_are_not(command: str) -> None:
    """One argument is enough."""
    assert not harmless(shlex.split(command))


def test_no_command_is_not_harmless() -> None:
    """What is not understood has no words."""
    assert not harmless(())


ALLOW_ALL = (Rule(Decision.ALLOW, "rules.1", "proc.exec"), Rule(Decision.ALLOW, "rules.2", "fs.*"))
GRANT = Grant("g1", "r1", Scope.CALL, "run_command", "digest", (), "", expires=1e9, given_by="a person")


@pytest.mark.parametrize("line", ALL_FORBIDDEN)
def test_destroyers_bombs_and_downloads_are_denied_whatever_rules_say(line: str) -> None:
    """By what run_command states of them, under rules that allow everything, and under a grant for the very call."""
    assert forbidden_line(line, read_line(line))
    verdicts = [judged(line), judged(line, *ALLOW_ALL), judged(line, *ALLOW_ALL, grants=(GRANT,))]
    assert [verdict.decision for verdict in verdicts] == [Decision.DENY] * 3
    assert "builtin.command" in [finding.rule for finding in verdicts[1].findings]


@pytest.mark.parametrize("line", TOGETHER)
def test_lines_whose_commands_are_fine_one_by_one_are_stated_as_a_whole(line: str) -> None:
    """Else the gate would judge each command, and none of them would be denied."""
    reading = read_line(line)
    assert [part.text for part in reading.parts if forbidden(part.words, part.text)] == []
    assert reading.doubt


@pytest.mark.parametrize("line", PERMITTED.splitlines())
def test_what_only_looks_like_them_is_for_rules_and_people(line: str) -> None:
    """Denying is for what is plain."""
    assert forbidden_line(line, read_line(line)) is None
    assert "builtin.command" not in [finding.rule for finding in judged(line, *ALLOW_ALL).findings]


@pytest.mark.parametrize("line", ALWAYS_ASKED)
def test_what_cannot_be_looked_at_asks_whatever_rules_say(line: str) -> None:
    """No length and no depth makes a line pass unseen; a person may still approve it."""
    assert judged(line, *ALLOW_ALL).decision is Decision.ASK
    assert judged(line, *ALLOW_ALL, grants=(GRANT,)).decision is Decision.ALLOW


LEAVING = """while :; do sleep 9 & done
until false; do cat & done
while true; do ls | cat & done
while :; do (sleep 9 &) ; done
while :; do { sleep 9 & }; done
while :; do if true; then sleep 9 & fi; done
for x in 1 2 3; do sleep 9 & done
while sleep 9 & do ls; done
while :; do echo $(sleep 9 &); done
while :; do bash -c 'sleep 9 &'; done
bash -c 'while :; do sleep 9 & done'
timeout 5 sh -c 'while :; do sleep 9 & done'
ls | xargs -I x bash -c 'sleep 9 &'"""


@pytest.mark.parametrize("line", LEAVING.splitlines())
def test_jobs_left_in_the_background_by_a_loop_ask(line: str) -> None:
    """Each of their commands is harmless, and together they fill the machine."""
    assert judged(line).decision is Decision.ASK


@pytest.mark.parametrize("line", ["sleep 1 & ls", "while read -r x; do echo $x; done & wait", "ls &"])
def test_a_job_left_in_the_background_once_needs_no_prompt(line: str) -> None:
    """It ends with the line."""
    assert judged(line).decision is Decision.ALLOW


def test_a_reason_names_what_would_happen() -> None:
    """A model can tell what to leave."""
    assert forbidden(("rm", "-rf", "/")) == "rm would remove all of /"
    assert forbidden(()) is None
