"""Names of files that make programs run outside the sandbox, each with what runs it. One table.

They are asked for when they are new or changed, by a tool or by a program. Makefile, conftest.py and package.json are
not among them: people know that running a project runs these.
"""

from __future__ import annotations

from types import MappingProxyType

_AGENT = "agents read it as instructions or settings"
_EDITOR = "editors run what it names when the folder is opened"
_DEBUGGER = "a debugger or interpreter runs it at start"
_SHELL = "shells run it at start"
_HOOKS = "git runs what it names at commits and checkouts"
_PACKAGES = "a package manager runs or loads what it names"
_FORGE = "a forge runs what it names after a push"
_LOGIN = "the system runs it at login or at set times"

# What a forge reads lies at the top of a repository; inside a package that was installed, nothing reads it.
FORGES = MappingProxyType(
    {
        ".github/workflows": _FORGE,
        ".github/actions": _FORGE,
        ".gitlab-ci.yml": _FORGE,
        ".gitlab/ci": _FORGE,
        ".gitea/workflows": _FORGE,
        ".forgejo/workflows": _FORGE,
        ".circleci": _FORGE,
        ".travis.yml": _FORGE,
        ".drone.yml": _FORGE,
        ".woodpecker": _FORGE,
        ".woodpecker.yml": _FORGE,
        ".woodpecker.yaml": _FORGE,
        ".buildkite": _FORGE,
        ".cirrus.yml": _FORGE,
        ".semaphore": _FORGE,
        ".teamcity": _FORGE,
        ".builds": _FORGE,
        ".build.yml": _FORGE,
        ".appveyor.yml": _FORGE,
        "appveyor.yml": _FORGE,
        "azure-pipelines.yml": _FORGE,
        ".azure-pipelines": _FORGE,
        "bitbucket-pipelines.yml": _FORGE,
        "cloudbuild.yaml": _FORGE,
        "Jenkinsfile": _FORGE,
    }
)

_OTHERS = MappingProxyType(
    {
        # agents
        ".mcp.json": "agents start the programs that it names",
        ".claude": _AGENT,
        "CLAUDE.md": _AGENT,
        "AGENTS.md": _AGENT,
        ".agents/skills": _AGENT,
        ".codex": _AGENT,
        ".cursor": _AGENT,
        ".gemini": _AGENT,
        ".kiro": _AGENT,
        ".roo": _AGENT,
        ".windsurf": _AGENT,
        # editors
        ".vscode": _EDITOR,
        ".idea": _EDITOR,
        ".zed": _EDITOR,
        ".helix": _EDITOR,
        ".devcontainer": "a container is built and started from it when the folder is opened",
        "*.code-workspace": _EDITOR,
        ".exrc": _EDITOR,
        ".vimrc": _EDITOR,
        ".nvimrc": _EDITOR,
        ".nvim.lua": _EDITOR,
        ".dir-locals.el": _EDITOR,
        # version control
        ".gitattributes": "it names filters and drivers that git runs",
        ".gitmodules": "git fetches what it names, and runs what it sets",
        ".gitconfig": "it names programs that git runs",
        ".config/git": "it names programs that git runs",
        ".hg/hgrc": "it names programs that Mercurial runs",
        ".husky": _HOOKS,
        ".githooks": _HOOKS,
        ".pre-commit-config.yaml": _HOOKS,
        "lefthook.yml": _HOOKS,
        "lefthook.yaml": _HOOKS,
        ".lefthook.yml": _HOOKS,
        ".lefthook.yaml": _HOOKS,
        # package managers and toolchains
        ".npmrc": _PACKAGES,
        ".yarnrc.yml": _PACKAGES,
        ".yarn/releases": _PACKAGES,
        ".yarn/plugins": _PACKAGES,
        ".pnpmfile.cjs": _PACKAGES,
        "bunfig.toml": _PACKAGES,
        ".cargo/config.toml": _PACKAGES,
        ".cargo/config": _PACKAGES,
        "mise.toml": "mise runs what it names when the folder is entered",
        ".mise.toml": "mise runs what it names when the folder is entered",
        ".envrc": "direnv runs it when the folder is entered",
        # debuggers and interpreters
        ".gdbinit": _DEBUGGER,
        ".lldbinit": _DEBUGGER,
        ".pdbrc": _DEBUGGER,
        ".Rprofile": _DEBUGGER,
        # shells and the system
        ".profile": _SHELL,
        ".bashrc": _SHELL,
        ".bash_profile": _SHELL,
        ".bash_login": _SHELL,
        ".bash_logout": _SHELL,
        ".zshrc": _SHELL,
        ".zshenv": _SHELL,
        ".zprofile": _SHELL,
        ".zlogin": _SHELL,
        ".zlogout": _SHELL,
        ".config/fish": _SHELL,
        ".config/systemd": _LOGIN,
        ".local/share/systemd": _LOGIN,
        ".config/autostart": _LOGIN,
        "Library/LaunchAgents": _LOGIN,
        ".local/bin": "shells look for commands there",
    }
)

REASONS = MappingProxyType({**FORGES, **_OTHERS})
NAMES = tuple(REASONS)
NAMES_IN_CACHES = tuple(_OTHERS)
