"""What only looks like a secret: placeholders, templates, types, code and labels. Loaded when something matched."""

import re
from base64 import b64decode

from handrail.output.patterns import SecretKind

_WORDS = frozenset(
    b"true false null none nil undefined unset unknown empty string str bytes byte int integer number float bool "
    b"boolean object any optional required default disabled enabled hidden redacted masked private public readonly "
    b"password passwd passphrase passcode secret secrets token tokens apikey api_key pass pwd user username "
    b"credentials changeme change_me change-me changeit example examples test testing tests dummy placeholder sample "
    b"demo foobar secretstr bearer basic oauth oauth2 secretkey mysecret mypassword mytoken text char varchar uuid "
    b"base64 sha256 include same-origin omit".split()
)
_PASSWORD_NAME = re.compile(rb"(?i)(?:(?:db|user|admin|root)?[_.-]?pass|pwd|secr)")
_FAKE = re.compile(
    rb"(?i)x{4}|example|placeholder|change[-_]?me|^your|[-_ <]your[-_ ]|dummy|redacted"
    rb"|\.\.\.$|\xe2\x80\xa6|insert[-_ ]|replace[-_ ]"
    rb"|^(?:my|some|the|a|fake|mock|test|sample|demo)[-_ ][a-z_-]*$"
)
_TEMPLATE = re.compile(
    rb"^(?:<[\w .:|/-]+>|\{[\w .:|-]*\}|\[[\w .,-]*\]|\([\w .]*\)|\^[\[(].*\$|![A-Za-z]+|&[a-z]+;.*|%\w+%|%s)$"
    rb"|^(?:\$[A-Z_][A-Z0-9_]*|\$[a-z_]+(?:->?.*)?|\$\{[A-Za-z_].*|\$\([a-z].*|@\w+[{(].*)$"
    rb"|\{\{ ?[\w.]+|\$\{[A-Za-z_][^}]*\}|\$\([a-z][^)]*\)|%\([a-z_]+\)|[ :/]%s|\{[a-z_][a-z_.]+\}"
    rb"|<[A-Za-z_ -]{3,}>|^ ?[+%,.)&]+ "
)
_PLACE = re.compile(
    rb"(?:~|\.{1,2})?/(?:[A-Za-z.][a-z0-9._-]{0,24}/)+[\w.-]*$|[a-z+]+://|[A-Za-z]:\\{1,2}[A-Za-z]{2}"
    rb"|[\w./-]+\.(?:json|ya?ml|toml|pem|txt|py|env|key|crt)$"
)
# Atomic groups: a word is taken one way only, so that no value takes long.
_WORD = rb"(?>[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z]))"
_WORDY = re.compile(rb"_*" + _WORD + rb"(?:(?:[-_./]|::)?" + _WORD + rb")*[-_.:]?")
_IDENTIFIER = re.compile(rb"[a-z]{2,8}_" + _WORD + rb"(?:_?" + _WORD + rb")*")
_SNAKE = re.compile(rb"[a-z_][a-z0-9_]*|[A-Z_][A-Z0-9_]*|")
# A part of a name, a version, a date or an algorithm: a word with a number, or a number with a letter or two.
_PLAIN_PART = re.compile(rb"(?:" + _WORD + rb")*[0-9]{0,4}[A-Za-z]?|[0-9]+[A-Za-z]{0,2}[0-9]*|[A-Za-z]?")
_BETWEEN_PARTS = re.compile(rb"[-_./]+")
_ADDRESS = re.compile(rb"[\w.+-]+@[a-z0-9.-]+\.[a-z]{2,}")
_ONE_WORD = re.compile(rb"[a-z]+")
_EXPRESSION = re.compile(rb"[A-Za-z_$][\w$]*(?:(?:\.|::|->)[A-Za-z_$][\w$]*)*[.!?]?")
_CODE_START = re.compile(rb"([A-Za-z_][A-Za-z_.:]{3,})[\[(]")
_TEXT_WORD = re.compile(rb"[\"'(]?(?:[A-Za-z]+(?:['-][A-Za-z]+)*|[0-9]+)[\"'),.;:!?]*")
_KEY_BEFORE = re.compile(rb"[ \t]*(?:export[ \t]+|-[ \t]+)?[\"']?[\w.-]+[\"']?(?:=|:[ \t]*)")
# A word that is neither an escape (`\n`) nor percent-encoded (`%3D`). Signs do not count: a token follows them in
# paths, in the lines of a diff and in names that were put together.
_WORD_BEFORE = re.compile(rb"(?<!%)(?<!%[0-9A-Fa-f])[0-9A-Za-z](?<!\\[nrt])\Z")
_SHORT_PREFIX = 4
_LEAST_ITEM = 6  # characters of a secret in a list
_BODY = re.compile(
    rb"""(?:\\[rnt]|[\s"'+,>|#\\]){0,64}(?:[0-9A-Za-z+/=]{16}|[A-Z][A-Za-z-]{3,20}:|[0-9A-Za-z+/=-]{0,21}\Z)"""
)


def is_block(data: bytes, end: int) -> bool:
    """Tell a key block from text that only names one: a body, or the end of the text, follows its first line."""
    return _BODY.match(data, end, end + 160) is not None


def harmless(kind: SecretKind, data: bytes, match: int, start: int, end: int) -> bool:
    """Tell whether what matched is a placeholder, a template, a type or code rather than a secret."""
    value = data[start:end]
    if b"***" in value:
        return not value.strip(b"*")
    if _FAKE.search(value[:200]) or len(set(value[-12:])) <= 2:
        return True
    if kind.shape == "token":
        if start == match and (_is_embedded(kind, data, start) or _is_identifier(data, start, end)):
            return True
        return not value.strip(b"*")
    if value.lower() in _WORDS or _TEMPLATE.search(value):
        return True
    return _CHECKS[kind.shape](data, match, start, end)


def _is_embedded(kind: SecretKind, data: bytes, start: int) -> bool:
    """Tell a short prefix that stands inside a longer word (a hash, an image) from one that begins a token."""
    if kind.lead or min(map(len, kind.keywords), default=0) > _SHORT_PREFIX:
        return False
    return _WORD_BEFORE.search(data, max(0, start - 3), start) is not None


def _is_identifier(data: bytes, start: int, end: int) -> bool:
    """Tell a name in code, made of words alone (`hf_requiredCharacteristicTypes`), from a token of letters."""
    return _IDENTIFIER.fullmatch(data, start, end) is not None


def _harmless_list(data: bytes, _match: int, start: int, end: int) -> bool:
    """Keep a list with one item at least that looks like a secret: quoted, or of one word."""
    return all(_harmless_item(item) for item in data[start:end].split(b","))


def _harmless_item(item: bytes) -> bool:
    value = item.strip(b" \t")
    bare = value.strip(b"\"'")
    if len(bare) < _LEAST_ITEM or bare.lower() in _WORDS or _FAKE.search(bare) or _TEMPLATE.search(bare):
        return True
    if value != bare:
        return _harmless_quoted(bare, 0, 0, len(bare))
    is_code = re.search(rb"[\s(){}=|]", bare) is not None
    return is_code or _harmless_bare(bare, 0, 0, len(bare))


def _harmless_quoted(data: bytes, match: int, start: int, end: int) -> bool:
    value = data[start:end]
    if _PLACE.match(value):
        return True
    if b" " in value:
        return _reads_like_text(value)
    if not _WORDY.fullmatch(value):
        return False
    return not (_ONE_WORD.fullmatch(value) and _names_password(data, match))


def _names_password(data: bytes, match: int) -> bool:
    return _PASSWORD_NAME.match(data, match) is not None


def _reads_like_text(value: bytes) -> bool:
    """Tell a label or message from a passphrase: those have capitals, punctuation or small words."""
    words = value.split()
    if not all(map(_TEXT_WORD.fullmatch, words)):
        return False
    small = {b"the", b"a", b"an", b"is", b"are", b"to", b"of", b"for", b"in", b"not", b"your", b"or", b"and", b"with"}
    return value[:1].isupper() or value.endswith((b".", b"!", b"?", b":")) or not small.isdisjoint(words)


def _harmless_bare(data: bytes, match: int, start: int, end: int) -> bool:
    value = data[start:end]
    if _PLACE.match(value) or (value.isdigit() and not _names_password(data, match)):
        return True
    if _EXPRESSION.fullmatch(value) and (data[end : end + 1] in (b"(", b"[") or b"." in value or b"::" in value):
        return data[end : end + 1] == b"(" or all(map(_is_name, re.split(rb"\.|::|->", value)))
    if not _WORDY.fullmatch(value):
        return False
    return not (_ONE_WORD.fullmatch(value) and _is_whole_line(data, start, end))


def _is_name(word: bytes) -> bool:
    """Tell a name as people write it from a random value."""
    return _SNAKE.fullmatch(word) is not None or _WORDY.fullmatch(word) is not None


def _is_whole_line(data: bytes, start: int, end: int) -> bool:
    """Tell a line of a settings file (`key=value`, `key: value`) from code that names a variable."""
    line = data.rfind(b"\n", max(0, start - 200), start) + 1 or max(0, start - 200)
    return data[end : end + 1] in (b"", b"\n", b"\r") and _KEY_BEFORE.fullmatch(data, line, start) is not None


def _harmless_env(data: bytes, _match: int, start: int, end: int) -> bool:
    value = data[start:end]
    code = _CODE_START.match(value)
    named = code[1] if code else value if b"." in value else b""
    return _PLACE.match(value) is not None or _WORDY.fullmatch(named) is not None


def _harmless_near(data: bytes, _match: int, start: int, end: int) -> bool:
    """Keep only what looks random: some part of it is neither a word nor a number nor both."""
    value = data[start:end]
    if _PLACE.match(value) or _ADDRESS.fullmatch(value):
        return True
    return all(map(_PLAIN_PART.fullmatch, _BETWEEN_PARTS.split(value)))


def _harmless_bearer(data: bytes, _match: int, start: int, end: int) -> bool:
    return _WORDY.fullmatch(data, start, end) is not None


def _harmless_basic(data: bytes, _match: int, start: int, end: int) -> bool:
    """Keep only what decodes to `user:password`."""
    value = data[start:end].rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    decoded = b64decode(value[: len(value) - (len(value) % 4 == 1)] + b"===")
    return b":" not in decoded or any(byte < 32 for byte in decoded)


def _harmless_url(data: bytes, _match: int, start: int, end: int) -> bool:
    return data[start:end].isdigit() and end - start < 6


_CHECKS = {
    "quoted": _harmless_quoted,
    "bare": _harmless_bare,
    "list": _harmless_list,
    "near": _harmless_near,
    "env": _harmless_env,
    "bearer": _harmless_bearer,
    "basic": _harmless_basic,
    "url": _harmless_url,
}
