"""The layer of a reviewed program, on disk: for root and for an ordinary user, with the right owners, out of sight."""

from __future__ import annotations

import json

import pytest

from attacks._sandbox_users import USERS, folder, run

LAYERED = """
import json, os, sys
from handrail.processes.layer_home import LayerHomes
from handrail.sandbox.choose import choose
from handrail.sandbox.plan import Plan

base = sys.argv[1]
work = f"{base}/work"
os.mkdir(work)
with open(f"{work}/old", "w") as file:
    file.write("old\\n")
if os.geteuid() == 0:
    for path in (work, f"{work}/old"):
        os.chown(path, 4321, 4322)
homes = LayerHomes(f"{base}/state", [work])
sandbox = choose(backend="native", min_tier="A")
read, write = os.pipe()
null = os.open(os.devnull, os.O_RDONLY)
line = "echo x >> old; echo y > new; ln new other; ln -s old link; mkdir d; ls /.layers; ls " + base
plan = Plan((), (work,), review=True, layers=homes)
env = {"PATH": "/bin:/usr/bin"}
argv = ["/bin/sh", "-c", line]
child = sandbox.spawn(plan, argv, cwd=work, env=env, stdin=null, stdout=write, stderr=write)
os.close(write)
with open(read) as said:
    text = said.read()
child.wait_blocking(10)
upper = child.upper[work]
found = {name: os.lstat(f"{upper.path}/{name}") for name in sorted(os.listdir(upper.path))}
owners = {(status.st_uid, status.st_gid) for status in found.values()}
left = os.listdir(work)
on_disk = bool(upper.layer)
child.discard()
sandbox.close()
gone = os.listdir(f"{base}/state")
print(json.dumps([text, [*found], sorted(owners), left, on_disk, gone, os.geteuid()]))
"""


@pytest.mark.parametrize("user", USERS)
def test_what_a_program_makes_in_its_layer_belongs_to_the_owner_of_the_workspace(user: str) -> None:
    """Root's programs run as nobody in particular, and still their files are the owner's; nothing of it is seen."""
    with folder(user) as place:
        done = run(user, LAYERED, str(place))
        assert done.returncode == 0, done.stderr
        text, found, owners, left, on_disk, gone, uid = json.loads(done.stdout)
    assert found == ["d", "link", "new", "old", "other"]
    assert owners == ([[4321, 4322]] if uid == 0 else [[uid, uid]])
    assert (left, on_disk, gone) == (["old"], True, [])
    assert "cannot access '/.layers'" in text
    assert text.splitlines()[-1] == "work"
