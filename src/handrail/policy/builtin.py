"""What no setting lifts: Handrail's own files, key material, repository hooks, metadata addresses, the roots."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from handrail.policy import repositories
from handrail.policy.patterns import could_protect, folded, host_and_port, literal, machine_path, protects
from handrail.policy.world import DELETE, DENY, MAKE, MOVE, REACH, READ, WRITE, World
from handrail.words import Exclusion, Finding, How, PlaceKind, Root, Touch

KEY_MATERIAL = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".config/gcloud",
    ".config/gh/hosts.yml",
    ".config/op",
    ".docker/config.json",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".pypirc",
    ".htpasswd",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    "Library/Keychains",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".terraform.d/credentials.tfrc.json",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.kdbx",
    "*.keychain-db",
)
_KEYS_LEFT_OUT = tuple(Exclusion(pattern, "builtin.key-material") for pattern in KEY_MATERIAL)
REPOSITORY = repositories.PATTERNS
SETTINGS_FILES = ("handrail.toml",)
_LOOKED_AT = (*KEY_MATERIAL, ".git", *SETTINGS_FILES)  # what is none of these, and in none, is nothing of the above
# What hands out the credentials of the machine it is asked from; `net` refuses the same at every connection.
METADATA_ADDRESSES = (
    *("169.254.169.254", "169.254.170.2", "169.254.170.23", "169.254.169.123", "169.254.169.253"),
    *("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
)
METADATA_NAMES = frozenset(  # wherever they lead to: a private resolver may have moved them
    (
        *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
        *("metadata.azure.internal", "metadata.tencentyun.com", "metadata.platformequinix.com", "metadata.packet.net"),
    )
)
METADATA_HOSTS = METADATA_NAMES.union(METADATA_ADDRESSES)


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of one touch, and nothing but denials."""
    place = touch.place
    if touch.kind is REACH:
        yield from _address(touch)
    if place is None:
        return
    absolute = machine_path(place.root, place.path)
    if _is_own(absolute, touch, world):
        yield _deny("builtin.own-files", f"{touch.shown} belongs to Handrail itself")
    # The whole path of the machine: a root inside `.ssh` is no way around.
    if pattern := protects(KEY_MATERIAL, absolute):
        yield _deny("builtin.key-material", f"{touch.shown} is key material ({pattern})")
    if touch.kind is WRITE or touch.kind is DELETE:
        yield from _changed(absolute, touch, world)


def unconfirmed(touch: Touch) -> Iterator[Finding]:
    """Deny what lacks the confirmation its tool demands; said last, because the call alone can mend it."""
    if not touch.confirmed:
        why = f"{touch.kind} of {touch.shown} needs `confirm: true` in the same call"
        yield _deny("builtin.confirm", why, "POLICY_DENIED")


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """What a deep read must leave out, whatever rules say."""
    assert touch.place is not None
    root = touch.place.root
    yield from _KEYS_LEFT_OUT
    for rest in _straddling(root.path.casefold()):
        yield Exclusion(f"/{rest}", "builtin.key-material", root=root.name)
    above = root.path.rstrip("/")
    for own in world.own_paths:
        if own.startswith(f"{above}/"):
            yield Exclusion(literal(own[len(above) :]), "builtin.own-files", root=root.name)


def _address(touch: Touch) -> Iterator[Finding]:
    host, _ = host_and_port(touch.target)
    if host in METADATA_HOSTS:
        yield _deny("builtin.metadata", f"{host} gives out a machine's credentials", "HOST_NOT_ALLOWED")


def _changed(absolute: str, touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of what a write or delete would replace, remove or plant, at the place and below it."""
    place = touch.place
    assert place is not None
    inside = f"{absolute}/"
    stays = touch.kind is WRITE and touch.how is MAKE and place.kind is PlaceKind.DIRECTORY
    if not stays and (place.path == "" or [root for root in world.roots if root.path.startswith(inside)]):
        yield _deny("builtin.root", f"{touch.shown} is a root or holds one, and is never replaced, moved or deleted")
    if (touch.deep or touch.how is MOVE) and touch.below is None and place.kind is PlaceKind.DIRECTORY:
        yield _deny("builtin.unseen", f"what lies below {touch.shown} is not known, so it cannot be judged")
    yield from _planted(absolute, touch.shown, world, touch)
    yield from _settings(absolute, touch.shown, world)
    if reaches(absolute, touch, world.hook_files):
        yield _deny("builtin.hook-settings", f"{touch.shown} says whether an agent asks Handrail; people edit it")
    if not stays and reaches(absolute, touch, world.own_code):
        why = f"{touch.shown} is, or holds, code that this process runs: Handrail, its libraries or the interpreter"
        yield _deny("builtin.own-code", why)
    if touch.below:
        yield from _taken(place.root, touch.below, world)


def _taken(root: Root, below: tuple[str, ...], world: World) -> Iterator[Finding]:
    """Denials of what would be taken away with a folder, or planted with it."""
    special = could_protect(_LOOKED_AT)
    known = repositories.covering(world.repositories)
    for path in below:
        absolute = machine_path(root, path)
        if not special(absolute) and absolute not in world.settings_files and not known(absolute):
            continue  # as nearly all of many thousand
        shown = root.shown(path)
        yield from _settings(absolute, shown, world)
        if pattern := protects(KEY_MATERIAL, absolute):
            yield _deny("builtin.key-material", f"{shown} is key material ({pattern})")
        yield from _planted(absolute, shown, world)


def _settings(absolute: str, shown: str, world: World) -> Iterator[Finding]:
    if absolute in world.settings_files:
        yield _deny("builtin.settings", f"{shown} holds settings of Handrail; people edit it, tools never")


def _planted(absolute: str, shown: str, world: World, touch: Touch | None = None) -> Iterator[Finding]:
    how = How.PLAIN if touch is None else touch.how
    # Undo removes what a recorded call made, and that was part of a new repository which runs no programs.
    removed = how is How.UNDO and touch is not None and touch.kind is DELETE
    why = "" if removed else repositories.denial(absolute, world.repositories, plain=how is How.REPOSITORY)
    if why:
        yield _deny("builtin.repository", f"{shown} {why}")
    if protects(SETTINGS_FILES, absolute):
        yield _deny("builtin.settings", f"{shown} decides what tools may do; people edit it, tools never")


def _is_own(absolute: str, touch: Touch, world: World) -> bool:
    assert touch.place is not None
    if not world.own_paths or _is_run_folder(touch.place.root, world):
        return False
    path = f"{absolute.casefold()}/"
    own_paths = folded(world.own_paths)
    # A deep read leaves them out (see exclusions); a deep write or delete must not reach them at all.
    above = touch.deep and touch.kind is not READ
    return path.startswith(own_paths) or (above and any(own.startswith(path) for own in own_paths))


def reaches(absolute: str, touch: Touch, paths: tuple[str, ...]) -> bool:
    """Tell whether a change is made at or below one of some paths, or takes one of them along."""
    if not paths:
        return False
    path = f"{absolute.casefold()}/"
    known = folded(paths)
    takes_along = touch.deep or touch.kind is DELETE or touch.how is MOVE
    return path.startswith(known) or (takes_along and any(own.startswith(path) for own in known))


def _is_run_folder(root: Root, world: World) -> bool:
    """Whether a root is one that the run itself holds for its tools, though it lies among Handrail's own files."""
    if root.name.startswith("run:"):
        return True
    return root.path.endswith("/workspace") and any(
        root.path == f"{own}/{world.run_id}/workspace" for own in world.own_paths
    )


@lru_cache(maxsize=64)
def _straddling(root: str) -> tuple[str, ...]:
    """What is left of names such as `.config/op` beneath a root that is itself a `.config`."""
    parts = [pattern.split("/") for pattern in KEY_MATERIAL]
    return tuple(
        "/".join(names[count:])
        for names in parts
        for count in range(1, len(names))
        if root.endswith(f"/{'/'.join(names[:count])}".casefold())
    )


def _deny(rule: str, why: str, code: str = "PATH_PROTECTED") -> Finding:
    return Finding("builtin", rule, DENY, why, code=code)
