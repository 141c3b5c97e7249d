"""What no setting lifts: Handrail's own files, key material, repository hooks, metadata addresses, the roots."""

from __future__ import annotations

from collections.abc import Iterator

from handrail.policy.patterns import protects
from handrail.policy.world import World
from handrail.words import Decision, Exclusion, Finding, PlaceKind, Touch, TouchKind

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
# Written by an agent, these would make git run programs for whoever uses the repository next.
REPOSITORY = (".git/hooks", ".git/config", ".git/**/hooks", ".git/**/config", ".git/**/config.worktree")
SETTINGS_FILES = ("handrail.toml",)
METADATA_HOSTS = frozenset(
    {
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "fd00:ec2::254",
        "metadata.google.internal",
        "metadata.goog",
        "instance-data",
    }
)
_WRITING = frozenset({TouchKind.FS_WRITE, TouchKind.FS_DELETE})


def findings(touch: Touch, world: World) -> Iterator[Finding]:
    """Denials of one touch, and nothing but denials."""
    if touch.kind is TouchKind.NET_CONNECT:
        yield from _address(touch)
    if touch.place is None:
        return
    if _is_own(touch, world):
        yield _deny("builtin.own-files", f"{touch.shown} belongs to Handrail itself")
    if touch.kind in _WRITING and touch.place.path == "":
        yield _deny("builtin.root", f"{touch.shown} is a root itself and is never replaced, moved or deleted")
    if touch.kind in _WRITING and touch.deep and touch.below is None and touch.place.kind is PlaceKind.DIRECTORY:
        yield _deny("builtin.unseen", f"what lies below {touch.shown} is not known, so it cannot be judged")
    for path in (touch.place.path, *(touch.below or ())):
        yield from _named(path, touch)


def exclusions(touch: Touch, world: World) -> Iterator[Exclusion]:
    """What a deep read must leave out, whatever rules say."""
    for pattern in KEY_MATERIAL:
        yield Exclusion(pattern, "builtin.key-material")
    assert touch.place is not None
    for own in world.own_paths:
        if own.startswith(f"{touch.place.root.path}/"):
            yield Exclusion(
                own[len(touch.place.root.path) :], "builtin.own-files", root=touch.place.root.name, any_case=False
            )


def _address(touch: Touch) -> Iterator[Finding]:
    host = touch.target.rpartition(":")[0].strip("[]").rstrip(".").lower()
    if host in METADATA_HOSTS:
        yield _deny("builtin.metadata", f"{host} gives out a machine's credentials", "HOST_NOT_ALLOWED")


def _named(path: str, touch: Touch) -> Iterator[Finding]:
    assert touch.place is not None
    shown = touch.place.root.shown(path)
    if pattern := protects(KEY_MATERIAL, path):
        yield _deny("builtin.key-material", f"{shown} is key material ({pattern})")
    if touch.kind in _WRITING:
        if protects(REPOSITORY, path):
            yield _deny("builtin.repository", f"{shown} decides which programs git runs")
        elif path.rsplit("/", 1)[-1].casefold() == ".git":
            yield _deny("builtin.repository", f"{shown} is the repository itself")
        if protects(SETTINGS_FILES, path):
            yield _deny("builtin.settings", f"{shown} decides what tools may do; people edit it, tools never")


def _is_own(touch: Touch, world: World) -> bool:
    assert touch.place is not None
    if touch.place.root.name.startswith("run:"):
        return False
    path = touch.place.absolute
    if any(path == own or path.startswith(f"{own}/") for own in world.own_paths):
        return True
    # A deep read leaves them out (see exclusions); a deep write or delete must not reach them at all.
    deep_write = touch.deep and touch.kind is not TouchKind.FS_READ
    return deep_write and any(own.startswith(f"{path}/") for own in world.own_paths)


def _deny(rule: str, why: str, code: str = "PATH_PROTECTED") -> Finding:
    return Finding("builtin", rule, Decision.DENY, why, code=code)
