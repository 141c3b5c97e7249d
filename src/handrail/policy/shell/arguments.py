"""Programs that run other programs by an argument, where one would not expect it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.policy.shell import git, make
from handrail.policy.shell.elsewhere import leads_out, two_dashes
from handrail.policy.shell.git import shortened
from handrail.policy.shell.programs import sed_scripts_plain

# Variables by which cmake takes code; a file beneath is as good as the one at hand.
_CMAKE = r"CMAKE_(?:TOOLCHAIN_FILE|PROJECT_(?:\w*_)?INCLUDE(?:S|_BEFORE)?)"
# By program: the arguments that name a program, or code that runs one.
_HIDDEN = {
    name: re.compile(pattern, re.DOTALL)
    for names, pattern in (
        ("tar bsdtar", r"--(?:to-c|checkpoint-a|use-c|rsh|rmt|info-s|new-v)|-[a-zA-Z]*[IF]"),
        ("rsync", r"-[a-zA-Z]*e|--rsh|--rsync-path"),
        ("zip", r"-[a-zA-Z]*TT|--unzip-command"),
        ("sort", r"--comp"),
        ("rg", r"--(?:pre|hostname-bin)"),
        ("man", r"-[a-zA-Z]*[PH]|--(?:pager|html)"),
        ("less more most view vi vim nvim nano emacs ed ex", r".*"),
        ("awk gawk mawk nawk original-awk", r"(?s:.*(?:system\s*\(|\||getline|@)|-[a-zA-Z]*[lfiE])"),
        ("curl", r"-[a-zA-Z]*K|--config"),
        ("wget", r"--use-askpass|-e|--execute"),
        ("scp sftp", r"-[a-zA-Z]*[oSDF]"),
        ("gdb lldb", r".*"),
        ("docker podman", r"run|exec|build"),
        ("date hostname", r"(?!)"),
        ("alias enable hash shopt bind complete compgen let declare typeset fc history", r".*"),
        ("wait", r"-[a-zA-Z]*p"),
        ("mapfile readarray", r"-[a-zA-Z]*C"),
        ("printf", r"-[a-zA-Z]*v"),
        ("export readonly local", r"-.*f|.*\["),
        ("read unset test [", r".*\["),
        ("gcc cc g++ clang", r"-wrapper|-B|-fplugin|-specs|@|-Wl,|-Xlinker"),
        ("ld", r"-plugin"),
        ("crontab at batch", r".*"),
        ("tcpdump", r"-[a-zA-Z]*z"),
        ("nmap", r"--script"),
        ("sqlite3", r".*(?:\.shell|\.system|load_extension|\.load|-init|-cmd)"),
        ("psql mysql", r".*(?:\\!|COPY|system)"),
        ("split", r"--filter"),
        ("ctags", r"--options|--_"),
        ("go", r"--?(?:toolexec|exec|vettool)|generate|.*-extld"),
        ("cargo", r"--config"),
        ("cmake", rf"-P|-E|-C|(?:-D)?{_CMAKE}(?::\w+)?=(?:[/~]|(?:.*/)?\.\.)"),
        ("pnpm", r"--config\."),
        ("rake", r"-[a-eg-zA-Z]*[eEgprR]|--(?:execute|require|rakelib|sy)"),
        ("task", r"-[abfhlnpsvwxy]*g|--global"),
        ("just", r"-[a-ceg-zA-Z]*[cg]|--(?:command|shell|set|chooser|global)"),
        ("mutt mail mailx", r".*"),
        ("dpkg apt apt-get", r"-o|--option|--pre-invoke"),
        ("ip", r"netns"),
        ("expect unbuffer screen tmux dtach nohup", r"(?!)"),
        ("gpg", r"--(?:photo-viewer|exec-path|pinentry)"),
        ("openssl", r".*-engine|engine|-provider"),
    )
    for name in names.split()
}
# Long options that do so and may be written shorter, as far as they stay distinct.
_LONG = {
    "tar": ("--to-command", "--checkpoint-action", "--use-compress-program", "--rsh-command", "--rmt-command",
            "--info-script", "--new-volume-script"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "man": ("--pager", "--html"),
    "wget": ("--use-askpass", "--execute", "--config"),
    "zip": ("--unzip-command",),
    "npm": ("--script-shell", "--shell", "--node-options", "--git", "--viewer", "--editor", "--userconfig"),
    "pnpm": ("--script-shell", "--node-options"),
    "yarn": ("--script-shell", "--node-options", "--use-yarnrc"),
}  # fmt: skip
_ANY_DASHES = frozenset({"npm", "pnpm"})  # -name and ---name are --name
_FIRST_TOO = frozenset({"alias", "enable", "hash", "shopt", "bind", "complete", "let", "declare", "typeset", "fc"})


def hidden_program(texts: Sequence[str]) -> str:
    """Why a command may run what is not plainly named; empty where it does not."""
    if not texts:
        return ""
    name = texts[0].rsplit("/", 1)[-1]
    if name == "git":
        return git.runs_programs(texts)
    if name in make.NAMES:
        return make.runs_programs(texts)
    if name == "set":
        return _options(texts)
    if name in ("sed", "gsed"):
        return "" if sed_scripts_plain(texts) else "a script of sed may run or write what is not plainly named"
    if why := leads_out(name, texts) or _handed_on(name, texts):
        return why
    for text in texts[1:]:
        if shortened(two_dashes(text) if name in _ANY_DASHES else text, _LONG.get(name, ())):
            return f"{name} {text} may run what is not plainly named"
    hidden = _HIDDEN.get(name)
    if hidden is None:
        return ""
    if len(texts) == 1 and name in _FIRST_TOO:
        return f"{name} changes what the shell does"
    found = next((text for text in texts[1:] if hidden.match(text)), None)
    return f"{name} {found} may run what is not plainly named" if found is not None else ""


def _handed_on(name: str, texts: Sequence[str]) -> str:
    """What cmake hands on to make."""
    if name != "cmake" or "--" not in texts:
        return ""
    return make.runs_programs(texts[list(texts).index("--") :])


def _options(texts: Sequence[str]) -> str:
    """Options of the shell that only stop it or make it speak."""
    rest = " ".join(texts[1:])
    if re.fullmatch(r"(?:[-+][eux]*|[-+][eux]*o (?:pipefail|errexit|nounset|xtrace)| )*", rest):
        return ""
    return "set changes what the shell does"
