"""The kinds of secrets that are recognised by shape, one row a kind.

Longer than 500 lines because it is one table. Its rows obey rules that tests check: no anchors, word boundaries,
backreferences or lookaround (a match must not depend on what stands around it, so that slices and streams hide what the
whole hides); never `*` outside the secret, nor a line break but where `OPEN_LINE` tells it;
a keyword starts at most `lead` after the match does.
"""

from typing import Final, Literal

from handrail.words import noun

MARK: Final = "***REDACTED***"
LEAD: Final = 80

Shape = Literal["token", "quoted", "bare", "env", "list", "near", "bearer", "basic", "url"]


@noun
class SecretKind:
    """One kind of secret: where it may be (`keywords`), what it looks like, and how to tell a lookalike (`shape`)."""

    name: str
    pattern: str
    keywords: tuple[str, ...]
    example: str
    shape: Shape = "token"
    lead: int = LEAD  # How far before its keyword a match may start.
    until: str = ""  # A block: hidden from `pattern` to this, or as far as the window goes.
    head: str = ""  # What every match begins with, where several kinds begin so: looked for once for all of them.


_MIXED = "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7cF0" * 12
_HEX = "3fa94b07c1d85e26" * 16
_UPPER = "Q7RT2MZK5WXN3PLD" * 8
_LOWER = "q7rt2mzk5wxn3pld" * 8
_DIGITS = "7305918264" * 4
_UUID = "-".join((_HEX[:8], _HEX[:4], "4" + _HEX[:3], "a" + _HEX[:3], _HEX[:12]))

# How languages assign: `=`, `:=`, `::=`, `?=`, `.=`, `=>`, `:` …, after a type where one is written.
_ASSIGNS = r"(?:=>|:{0,3}=|\?{1,2}=|[.+]=|\|\|=|:)"
_TYPED = r"(?:\??:?[ \t]{1,4}[&*?]{0,2}(?:'[a-z]{1,12}[ \t])?[A-Za-z_][A-Za-z0-9_.:<>&?\[\]]{0,40})?"
_IS = rf"""["'\]]{{0,2}}{_TYPED}[ \t]{{0,4}}{_ASSIGNS}[ \t]{{0,4}}["'`]?"""
_UUID_PATTERN = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _kind(
    name: str, pattern: str, keywords: tuple[str, ...], example: str, shape: Shape = "token", until: str = ""
) -> SecretKind:
    """Describe a kind whose matches start with one of its keywords."""
    return SecretKind(name, pattern, keywords, example, shape, 0, until)


def _pair(name: str, rest: str, example: str, shape: Shape) -> SecretKind:
    """Describe a secret that follows the name of a variable or field."""
    return SecretKind(name, _PAIR + rest, _NAME_KEYWORDS, example, shape, 0, head=_PAIR_HEAD)


def _prefixed(name: str, prefix: str, body: str, example: str) -> SecretKind:
    """Describe a token that is known by its first characters."""
    return _kind(name, prefix.replace(".", r"\.") + body, (prefix.lower(),), prefix + example)


def _named(service: str, body: str, example: str) -> SecretKind:
    """Describe a token that is known only because a variable or field is named after its service."""
    words = service.replace("-", "[_. -]?")
    pattern = rf"(?i){words}[a-z0-9_. -]{{0,24}}{_IS}(?P<secret>{body})"
    keyword = service.split("-", maxsplit=1)[0]
    return _kind(f"{service}-key", pattern, (keyword,), f"{service.replace('-', '_')}_key = {example}")


_BLOCKS = (
    _kind(
        "private-key-block",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        ("-----begin ",),
        "-----BEGIN " + "RSA PRIVATE" + " KEY-----\n" + _MIXED[:64] + "\n-----END " + "RSA PRIVATE" + " KEY-----",
        until=r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    ),
    _kind(
        "ssh2-private-key-block",
        r"---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----",
        ("---- begin ",),
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n" + _MIXED[:64] + "\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        until=r"---- END SSH2 (?:ENCRYPTED )?PRIVATE KEY ----",
    ),
    _kind(
        "putty-private-key",
        r"PuTTY-User-Key-File-[123]: [a-z0-9@.-]{3,64}",
        ("putty-user-key-file-",),
        "PuTTY-User-Key-File-" + "3: ssh-ed25519\nPrivate-Lines: 1\n" + _MIXED[:48] + "\nPrivate-MAC: " + _HEX[:64],
        until=r"Private-MAC: [0-9a-f]{40,64}",
    ),
)

_KEYS_OF = (
    "api",
    "access",
    "private",
    "secret",
    "encryption",
    "signing",
    "master",
    "account",
    "auth",
    "shared",
    "session",
)
_PASS_OF = ("db", "user", "admin", "root")
_NAMES = (
    rf"(?:password|passwd|passphrase|passcode|secret|token|(?:{'|'.join(_KEYS_OF)})[_.-]?key|credentials?|pwd"
    rf"|(?:(?:{'|'.join(_PASS_OF)})[_.-]?|[_-])pass)"
)
_NAME_KEYWORDS = (
    *("_pass", "-pass", *(f"{word}{sign}pass" for word in _PASS_OF for sign in ("_", "-", ".", ""))),
    *("password", "passwd", "passphrase", "passcode", "secret", "token", "credential", "pwd"),
    *(f"{word}{sign}key" for word in _KEYS_OF if word != "secret" for sign in ("_", "-", ".", "")),
)
_KEY_END = r"(?:[_-](?:value|base64|b64|prod|production|dev|test|staging|live|old|new|[0-9]{1,2})|[0-9]{1,2})?"
_PAIR = rf"(?i){_NAMES}{_KEY_END}"
_PAIR_HEAD = _PAIR + r"""[\x00-\x20"'`\])\\:=?.+|<>,(*]"""
_ENV_WORDS = (
    r"(?:PASSWORD|PASSWD|PASSPHRASE|_PASS|PWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?"
    r"|SECRET_?KEY|ENCRYPTION_?KEY|SIGNING_?KEY|MASTER_?KEY|AUTH_?KEY)"
)
_Q = rf"""["'\])]{{0,3}}{_TYPED}[ \t]{{0,8}}{_ASSIGNS}[ \t]{{0,8}}[rbfuRBFU]?"""
_FREE = r"""[^\x00-\x20"'`,;&|<>(){}\[\]\\\x7f]"""
_FIRST = r"""[^\x00-\x20"'`,;&|<>(){}\[\]\\\x7f=:]"""
_NEAR = r"""[ \t:=<>!?.,;(){}\[\]&|*A-Za-z_-]{1,32}(?:["'](?:value|default)["'][ \t]{0,2}[:=][ \t]{0,2})?"""
_NO_DIGIT = r"[A-Za-z_+/.~!#%^*@$=-]"
_WITH_DIGITS = r"[A-Za-z0-9_+/.~!#%^*@$=-]"
_NEXT_LINE = r"[ \t]{0,8}\r?\n[ \t]{0,64}"
# What sets a variable or property that it takes by name.
_SETTERS = (
    *("setproperty", "setenv", "putenv", "define", "setx", "setheader", "addheader", "setrequestheader", "set_header"),
    *("add_header", "setitem", "setvalue", "set_value", "setparameter", "setsecret", "addproperty", "setstring"),
    *("put", "set", "env", "append", "putstring", "config", "param", "insert", "add", "export"),
)

# A line that may name a secret written on the next one (`spread-secret`): a stream waits for that before it shows it.
OPEN_LINE: Final = _PAIR + r"""["']?[ \t]{0,8}(?::[ \t]{0,8}(?:[|>][+-]?)?|,|</[a-z]{1,16}>|>|\{)?[ \t]{0,8}\r?\n\Z"""

_PAIRS = (
    _pair(
        "double-quoted-secret",
        _Q + r""""(?P<secret>(?:[^"\\\x00-\x1f]|\\[\x20-\xff]){6,})""",
        'db_password = "' + _MIXED[:16] + '"',
        "quoted",
    ),
    _pair(
        "single-quoted-secret",
        _Q + r"""'(?P<secret>(?:[^'\\\x00-\x1f]|\\[\x20-\xff]){6,})""",
        "clientSecret: '" + _MIXED[:16] + "'",
        "quoted",
    ),
    _pair(
        "escaped-quoted-secret",
        r"""\\{1,3}"[ \t]{0,8}:[ \t]{0,8}\\{1,3}"(?P<secret>[^"\\\x00-\x1f]{6,})""",
        r"{\"password\": \"" + _MIXED[:16] + r"\"}",
        "quoted",
    ),
    _pair(
        "bare-secret",
        rf"""["']?[ \t]{{0,8}}{_ASSIGNS}[ \t]{{0,8}}(?P<secret>{_FIRST}{_FREE}{{5,}})""",
        "auth_token: " + _MIXED[:24],
        "bare",
    ),
    _kind(
        "env-secret",
        _ENV_WORDS
        + r"""(?:_[A-Z0-9]{1,12})?(?:[?.+]|:{1,3})?=(?P<secret>[^\x00-\x20"'`\x7f=][^\x00-\x20"'`\x7f]{5,})""",
        (
            *(
                "passw",
                "passphrase",
                "_pass",
                "pwd",
                "secret",
                "token",
                "api_key",
                "apikey",
                "access_key",
                "accesskey",
                "private_key",
            ),
            *("privatekey", "credential", "encryption_key", "encryptionkey", "signing_key", "signingkey"),
            *("master_key", "masterkey", "auth_key", "authkey"),
        ),
        "APP_TOKEN=" + _MIXED[:24],
        "env",
    ),
    _kind(
        "env-key",
        r"""_KEY(?:_[A-Z0-9]{1,12})?=["']?(?P<secret>[A-Za-z0-9+/_-]{20,}={0,2})""",
        ("_key",),
        "ACME_KEY=" + _MIXED[:32],
        "bearer",
    ),
    SecretKind(
        "option-secret",
        r"(?i)--(?:[a-z]{1,16}-){0,2}(?:password|passwd|passphrase|token|secret|api-?key|access-key|secret-key)"
        rf"""[= \t][ \t]{{0,2}}["']?(?P<secret>[0-9A-Za-z_+/.~!@#%^]{_FREE}{{5,}})""",
        ("-password", "-passwd", "-passphrase", "-token", "-secret", "-apikey", "-api-key", "-access-key"),
        "--api-key " + _MIXED[:24],
        "bare",
        lead=40,
    ),
    _kind(
        "xml-secret",
        r"(?i)(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)>(?P<secret>[^<>\x00-\x20]{6,})</",
        (
            *("password>", "passwd>", "secret>", "token>", "apikey>", "api_key>", "api-key>"),
            *("accesskey>", "access_key>", "access-key>"),
        ),
        "<password>" + _MIXED[:16] + "</password>",
        "quoted",
    ),
    _pair(
        "backtick-secret",
        _Q + r"""`(?P<secret>[^`\x00-\x20]{6,})""",
        "apiToken := `" + _MIXED[:16] + "`",
        "quoted",
    ),
    _pair(
        "list-secret",
        rf"""["']?[ \t]{{0,4}}(?:=|:)[ \t]{{0,4}}\[[ \t]{{0,4}}"""
        rf"""(?P<secret>["']?{_FIRST}{_FREE}{{5,}}(?:["']?[ \t]{{0,4}},[ \t]{{0,4}}["']?{_FREE}*)*)""",
        "password: [" + _MIXED[:16] + "]",
        "list",
    ),
    _pair(
        "spread-secret",
        rf"""(?:["']?:[ \t]{{0,4}}[|>][+-]?{_NEXT_LINE}|["']?:{_NEXT_LINE}-[ \t]{{1,4}}["']?"""
        rf"""|["']?[ \t]{{0,4}},?(?:[ \t]{{0,4}}|{_NEXT_LINE})["']?value["']?[ \t]{{0,4}}[:=][ \t]{{0,4}}["']?"""
        rf"""|["'][ \t]{{0,4}}\{{{_NEXT_LINE}default[ \t]{{0,4}}=[ \t]{{0,4}}["']?"""
        rf"""|</[a-z]{{1,16}}>(?:[ \t]{{0,4}}|{_NEXT_LINE})<(?:value|string)>|>{_NEXT_LINE})"""
        rf"""(?P<secret>{_FIRST}{_FREE}{{5,}})""",
        "- name: DB_PASSWORD\n  value: " + _MIXED[:16],
        "bare",
    ),
    # A quoted value some words of code after the name: in a call, a condition, a constructor. It must hold a digit.
    _pair(
        "near-secret",
        rf"""["'`\])]{{0,3}}(?:{_NEAR}[rbfuRBFU]?["'`]{{1,3}}|[ \t]{{0,4}}=[ \t]{{0,4}}\[\[|>[ \t]{{0,4}}<!\[CDATA\["""
        r"""|>|:[ \t]{1,4}[&!][A-Za-z][A-Za-z0-9_-]{0,24}[ \t]{1,4})"""
        rf"""(?P<secret>{_NO_DIGIT}{{0,24}}[0-9]{_WITH_DIGITS}{{6,}}|{_NO_DIGIT}{{7,40}}[0-9]{_WITH_DIGITS}*)""",
        'client.setup_token(user, "' + _MIXED[:16] + '")',
        "near",
    ),
    _pair(
        "spaced-secret",
        r"[ \t]{1,8}(?P<secret>[A-Za-z_+/-]{0,24}[0-9][A-Za-z0-9_+/=-]{19,})",
        "aws configure set aws_secret_access_key " + _MIXED[:40],
        "near",
    ),
    _kind(
        "set-call-secret",
        rf"(?i)(?:{'|'.join(_SETTERS)})\([ \t]{{0,2}}[a-z_.]{{0,24}},?[ \t]{{0,2}}"
        rf"""["'`][a-z0-9_. -]{{0,40}}{_NAMES}{_KEY_END}["'`][ \t]{{0,4}},[ \t]{{0,4}}[a-z]{{0,2}}"""
        r"""["'`](?P<secret>[^"'`\x00-\x1f]{6,})""",
        tuple(f"{name}(" for name in _SETTERS),
        'os.Setenv("API_TOKEN", "' + _MIXED[:16] + '")',
        "quoted",
    ),
    _kind(
        "env-line-secret",
        r"(?:ENV|ARG|setenv|setx|set -[a-zA-Z]{1,3})[ \t]{1,4}[A-Za-z0-9_]{0,40}"
        rf"""{_ENV_WORDS}(?:_[A-Z0-9]{{1,12}})?[ \t]{{1,4}}["']?(?P<secret>{_FIRST}{_FREE}{{5,}})""",
        ("env ", "env\t", "arg ", "arg\t", "setenv ", "setenv\t", "setx ", "setx\t", "set -"),
        "ENV API_TOKEN " + _MIXED[:16],
        "bare",
    ),
    _kind(
        "sql-password",
        r"(?i)(?:password|identified by)[ \t]{1,4}'(?P<secret>[^'\x00-\x1f]{6,})",
        ("password", "identified by"),
        "CREATE USER app WITH PASSWORD '" + _MIXED[:16] + "'",
        "quoted",
    ),
    _kind(
        "netrc-password",
        r"(?i)login[ \t]{1,4}[^\x00-\x20*]{1,64}[ \t]{1,4}password[ \t]{1,4}(?P<secret>[^\x00-\x20]{4,})",
        ("login",),
        "machine host login me password " + _MIXED[:12],
        "env",
    ),
    _kind(
        "pgpass-password",
        r":5432:[^\x00-\x20:*]{1,64}:[^\x00-\x20:*]{1,64}:(?P<secret>[^\x00-\x20:]{4,})",
        (":5432:",),
        "localhost:5432:db:me:" + _MIXED[:12],
        "env",
    ),
    _kind(
        "curl-user",
        r"""(?:-u |--user[ =])["']?[A-Za-z0-9_.@+-]{1,64}:(?P<secret>[^\x00-\x20"'`<>]{6,})""",
        ("-u ", "--user"),
        "curl -u me:" + _MIXED[:12],
        "bare",
    ),
    _kind(
        "url-password",
        r"""://[^\x00-\x20/?#@:*"'`<>\\]*:(?P<secret>[^\x00-\x20/?#@"'`<>\\]{3,})@""",
        ("://",),
        "postgres://me:" + _MIXED[:12] + "@db/app",
        "url",
    ),
    _kind(
        "bearer-token",
        r"(?i)bearer[ \t]{1,4}(?P<secret>[a-z0-9._~+/-]{16,}={0,2})",
        ("bearer",),
        "Authorization: Bearer " + _MIXED[:32],
        "bearer",
    ),
    _kind(
        "authorization-header",
        r"""(?i)authorization["']?[ \t]{0,4}[:=][ \t]{0,4}["']?"""
        r"""(?:token|apikey|key|digest|negotiate|ntlm|splunk|hawk|sso-key)[ \t]{1,4}(?P<secret>[^\x00-\x20"',;]{8,})""",
        ("authorization",),
        "Authorization: token " + _MIXED[:32],
        "bearer",
    ),
    _kind(
        "authorization-value",
        r"""(?i)authorization["']?[ \t]{0,4}[:=][ \t]{0,4}["']?(?P<secret>[a-z0-9._~+/-]{20,}={0,2})""",
        ("authorization",),
        "Authorization: " + _MIXED[:40],
        "bearer",
    ),
    _kind(
        "basic-auth",
        r"(?i)basic[ \t]{1,4}(?P<secret>[a-z0-9+/_-]{8,}={0,2})",
        ("basic",),
        "Authorization: Basic " + "bWU6" + "aHVudGVyMmh1bnRlcjI=",
        "basic",
    ),
    _kind(
        "docker-auth",
        r'"auth"[ \t]{0,4}:[ \t]{0,4}"(?P<secret>[A-Za-z0-9+/]{8,}={0,2})',
        ('"auth"',),
        '"auth": "' + "bWU6" + 'aHVudGVyMmh1bnRlcjI="',
        "basic",
    ),
    _kind(
        "npm-auth",
        r"_auth[ \t]{0,2}=[ \t]{0,2}(?P<secret>[A-Za-z0-9+/]{8,}={0,2})",
        ("_auth",),
        "_auth=" + "bWU6" + "aHVudGVyMmh1bnRlcjI=",
        "basic",
    ),
    _kind(
        "cookie-header",
        r"""(?i)cookie:[ \t]{0,4}(?P<secret>[a-z0-9_.-]{1,64}=[^\x00-\x20"',]{8,}"""
        r"""(?:;[ \t]{0,2}[a-z0-9_.-]{1,64}=[^\x00-\x20"',]{1,})*)""",
        ("cookie:",),
        "Cookie: sid=" + _MIXED[:32],
        "bearer",
    ),
    _kind(
        "session-cookie",
        r"(?i)(?:sessionid|session_id|phpsessid|jsessionid|connect\.sid|laravel_session)=(?P<secret>[a-z0-9%._~+/-]{16,}={0,2})",
        ("sessionid", "session_id", "phpsessid", "jsessionid", "connect.sid", "laravel_session"),
        "sessionid=" + _MIXED[:32],
    ),
)

_CLOUDS = (
    _kind(
        "aws-access-key-id",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",
        ("akia", "asia", "abia", "acca"),
        "AKIA" + _UPPER.replace("0", "A").replace("1", "B")[:4] + "ABCDQRST2345",
    ),
    _kind(
        "aws-secret-access-key",
        rf"(?i)aws[a-z0-9_. -]{{0,24}}(?:secret|key|sk)[a-z0-9_. -]{{0,20}}{_IS}"
        r"""(?P<secret>[a-z0-9/+]{40})""",
        ("aws",),
        "aws_secret_access_key = " + _MIXED[:40],
    ),
    _kind(
        "aws-session-token",
        r"""(?:FwoGZXIvYXdz|IQoJb3JpZ2lu)[A-Za-z0-9+/=%]{50,}""",
        ("fwogzxivyxdz", "iqojb3jpz2lu"),
        "IQoJb3JpZ2lu" + _MIXED[:200],
    ),
    _kind("aws-bedrock-key", r"ABSK[A-Za-z0-9+/]{100,}={0,2}", ("absk",), "ABSK" + _MIXED[:120]),
    _kind(
        "aws-bedrock-short-key",
        r"bedrock-api-key-[A-Za-z0-9+/=_-]{40,}",
        ("bedrock-api-key-",),
        "bedrock-api-key-" + _MIXED[:80],
    ),
    _kind(
        "aws-presigned-signature",
        r"X-Amz-Signature=(?P<secret>[0-9a-f]{64})",
        ("x-amz-signature=",),
        "X-Amz-Signature=" + _HEX[:64],
    ),
    _kind("aws-mws-key", rf"amzn\.mws\.{_UUID_PATTERN}", ("amzn.mws.",), "amzn.mws." + _UUID),
    _prefixed("gcp-api-key", "AIza", r"[0-9A-Za-z_-]{35}", "Sy" + _MIXED[:33]),
    _prefixed("gcp-oauth-client-secret", "GOCSPX-", r"[0-9A-Za-z_-]{28}", _MIXED[:28]),
    _prefixed("gcp-oauth-access-token", "ya29.", r"[0-9A-Za-z_-]{20,}", _MIXED[:60]),
    _kind("gcp-refresh-token", r"1//0[0-9A-Za-z_-]{40,}", ("1//0",), "1//0" + _MIXED[:60]),
    _kind(
        "gcp-service-account-key-id",
        r'"private_key_id"[ \t]{0,4}:[ \t]{0,4}"(?P<secret>[0-9a-f]{40})',
        ('"private_key_id"',),
        '"private_key_id": "' + _HEX[:40] + '"',
    ),
    _kind("gcp-hmac-key", r"GOOG1E[A-Z0-9]{50,}", ("goog1e",), "GOOG1E" + _UPPER[:55]),
    _kind(
        "azure-storage-key",
        r"(?i)account_?key[ \t]{0,2}=[ \t]{0,2}(?P<secret>[a-z0-9+/]{86}==)",
        ("accountkey", "account_key"),
        "AccountKey=" + _MIXED[:86] + "==",
    ),
    _kind(
        "azure-shared-access-key",
        r"(?i)sharedaccesskey=(?P<secret>[a-z0-9+/]{43}=)",
        ("sharedaccesskey",),
        "SharedAccessKey=" + _MIXED[:43] + "=",
    ),
    SecretKind(
        "azure-sas-signature",
        r"(?i)[?&;]sig=(?P<secret>[a-z0-9%+/]{40,}(?:=|%3d)?)",
        ("sig=",),
        "?sv=2024-01-01&sig=" + _MIXED[:43] + "%3D",
    ),
    SecretKind(
        "azure-client-secret",
        r"[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.-]{31,34}",
        ("q~",),
        "aB38Q~" + _MIXED[:34],
    ),
    SecretKind(
        "azure-function-key",
        r"(?i)[?&]code=(?P<secret>[a-z0-9_/+-]{52,}={0,2})",
        ("code=",),
        "?code=" + _MIXED[:54] + "==",
    ),
    SecretKind(
        "azure-devops-token",
        r"[0-9A-Za-z]{52}JQQJ99[0-9A-Za-z]{18,}",
        ("jqqj99",),
        _MIXED[:52] + "JQQJ99" + _MIXED[:18],
    ),
    SecretKind(
        "azure-cache-key",
        r"[0-9A-Za-z]{33}AzCa[A-P][0-9A-Za-z]{5}=",
        ("azca",),
        _MIXED[:33] + "AzCaB" + _MIXED[:5] + "=",
    ),
    SecretKind(
        "azure-cosmos-key",
        r"[0-9A-Za-z+/]{76}ACDb[0-9A-Za-z+/]{5,7}=",
        ("acdb",),
        _MIXED[:76] + "ACDb" + _MIXED[:6] + "=",
    ),
    SecretKind(
        "azure-storage-key-2",
        r"[0-9A-Za-z+/]{76}\+ASt[0-9A-Za-z+/]{5,7}=",
        ("+ast",),
        _MIXED[:76] + "+ASt" + _MIXED[:6] + "=",
    ),
    SecretKind(
        "azure-search-key", r"[0-9A-Za-z]{42}AzSe[A-D][0-9A-Za-z]{5}", ("azse",), _MIXED[:42] + "AzSeB" + _MIXED[:5]
    ),
    SecretKind(
        "azure-batch-key",
        r"[0-9A-Za-z+/]{76}\+ABa[0-9A-Za-z+/]{5,7}=",
        ("+aba",),
        _MIXED[:76] + "+ABa" + _MIXED[:6] + "=",
    ),
    SecretKind(
        "azure-event-hub-key",
        r"[0-9A-Za-z+/]{33}\+AEh[0-9A-Za-z+/]{6,7}=",
        ("+aeh",),
        _MIXED[:33] + "+AEh" + _MIXED[:6] + "=",
    ),
    SecretKind(
        "azure-service-bus-key",
        r"[0-9A-Za-z+/]{33}\+ASb[0-9A-Za-z+/]{6,7}=",
        ("+asb",),
        _MIXED[:33] + "+ASb" + _MIXED[:6] + "=",
    ),
    SecretKind(
        "azure-iot-key", r"[0-9A-Za-z+/]{33}AIoT[0-9A-Za-z+/]{6,7}=", ("aiot",), _MIXED[:33] + "AIoT" + _MIXED[:6] + "="
    ),
    SecretKind(
        "azure-registry-key",
        r"[0-9A-Za-z+/]{42}\+ACR[A-D][0-9A-Za-z]{5}",
        ("+acr",),
        _MIXED[:42] + "+ACRB" + _MIXED[:5],
    ),
    SecretKind(
        "azure-apim-key", r"[0-9A-Za-z+/]{76}APIM[0-9A-Za-z+/]{4,7}", ("apim",), _MIXED[:76] + "APIM" + _MIXED[:6]
    ),
    _prefixed("alibaba-access-key-id", "LTAI", r"[0-9A-Za-z]{17,}", _MIXED[:20]),
    _prefixed("tencent-secret-id", "AKID", r"[0-9A-Za-z]{32}", _MIXED[:32]),
    _prefixed("digitalocean-token", "dop_v1_", r"[0-9a-f]{64}", _HEX[:64]),
    _prefixed("digitalocean-oauth-token", "doo_v1_", r"[0-9a-f]{64}", _HEX[:64]),
    _prefixed("digitalocean-refresh-token", "dor_v1_", r"[0-9a-f]{64}", _HEX[:64]),
    _prefixed("digitalocean-space-key", "DO00", r"[A-Z0-9]{16}", _UPPER[:16]),
    _named("linode", "[0-9a-f]{64}", _HEX[:64]),
    _named("vultr", "[A-Z0-9]{36}", _UPPER[:36]),
    _named("scaleway", _UUID_PATTERN, _UUID),
    _named("hetzner", "[0-9a-z]{64}", _MIXED[:64]),
    _named("oracle", "[0-9a-f]{40,64}", _HEX[:64]),
    _named("ibm-cloud", "[0-9a-z_-]{44}", _MIXED[:44]),
    _prefixed("yandex-api-key", "AQVN", r"[0-9A-Za-z_-]{35,38}", _MIXED[:36]),
    _prefixed(
        "yandex-iam-token",
        "t1.",
        r"[0-9A-Z][0-9A-Za-z_-]{60,}={0,2}\.[0-9A-Za-z_-]{80,}={0,2}",
        "9" + _MIXED[:70] + "." + _MIXED[:86],
    ),
    _prefixed("yandex-oauth-token", "y0_", r"[0-9A-Za-z_-]{50,}", _MIXED[:58]),
)

_FORGES = (
    _prefixed("github-personal-token", "ghp_", r"[0-9A-Za-z]{36,}", _MIXED[:36]),
    _prefixed("github-oauth-token", "gho_", r"[0-9A-Za-z]{36,}", _MIXED[:36]),
    _prefixed("github-user-token", "ghu_", r"[0-9A-Za-z]{36,}", _MIXED[:36]),
    _prefixed("github-server-token", "ghs_", r"[0-9A-Za-z_.-]{36,}", _MIXED[:36]),
    _prefixed("github-refresh-token", "ghr_", r"[0-9A-Za-z]{36,}", _MIXED[:36]),
    _prefixed("github-fine-grained-token", "github_pat_", r"[0-9A-Za-z_]{36,}", _MIXED[:22] + "_" + _MIXED[:59]),
    _prefixed("gitlab-personal-token", "glpat-", r"[0-9A-Za-z_.-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-deploy-token", "gldt-", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-runner-token", "glrt-", r"[0-9A-Za-z_.-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-runner-registration-token", "GR1348941", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-ci-job-token", "glcbt-", r"[0-9A-Za-z_-]{20,}", "64_" + _MIXED[:20]),
    _prefixed("gitlab-trigger-token", "glptt-", r"[0-9a-f]{40,}", _HEX[:40]),
    _prefixed("gitlab-feed-token", "glft-", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-mail-token", "glimt-", r"[0-9A-Za-z_-]{20,}", _MIXED[:25]),
    _prefixed("gitlab-agent-token", "glagent-", r"[0-9A-Za-z_-]{40,}", _MIXED[:50]),
    _prefixed("gitlab-oauth-secret", "gloas-", r"[0-9A-Za-z_-]{40,}", _MIXED[:64]),
    _prefixed("gitlab-scim-token", "glsoat-", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-feature-flag-token", "glffct-", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("gitlab-workspace-token", "glwt-", r"[0-9A-Za-z_-]{20,}", _MIXED[:20]),
    _prefixed("bitbucket-app-password", "ATBB", r"[0-9A-Za-z_=.-]{28,}", _MIXED[:32]),
    _prefixed("bitbucket-repository-token", "ATCTT3xFfG", r"[0-9A-Za-z_=-]{60,}", _MIXED[:120]),
    _prefixed("atlassian-api-token", "ATATT3xFfG", r"[0-9A-Za-z_=-]{60,}", _MIXED[:170]),
    _named("gitea", "[0-9a-f]{40}", _HEX[:40]),
    _named("codeberg", "[0-9a-f]{40}", _HEX[:40]),
    _prefixed("npm-token", "npm_", r"[0-9A-Za-z]{36,}", _MIXED[:36]),
    _prefixed("pypi-token", "pypi-AgE", r"[0-9A-Za-z_-]{50,}", "IcHlwaS5vcmc" + _MIXED[:80]),
    _prefixed("rubygems-key", "rubygems_", r"[0-9a-f]{48}", _HEX[:48]),
    _prefixed("crates-io-token", "cio", r"[0-9A-Za-z]{32}", _MIXED[:32]),
    _prefixed("nuget-key", "oy2", r"[0-9a-z]{43}", _LOWER[:43]),
    _prefixed("jfrog-key", "AKCp", r"[0-9A-Za-z]{64,}", _MIXED[:69]),
    _prefixed("jfrog-reference-token", "cmVmdGtu", r"[0-9A-Za-z]{48,}", _MIXED[:56]),
    _prefixed("docker-hub-token", "dckr_pat_", r"[0-9A-Za-z_-]{27,}", _MIXED[:27]),
    _prefixed("docker-organisation-token", "dckr_oat_", r"[0-9A-Za-z_-]{27,}", _MIXED[:32]),
    _prefixed("clojars-token", "CLOJARS_", r"[0-9a-z]{60}", _LOWER[:60]),
    _named("artifactory", "[0-9a-z]{60,}", _MIXED[:73]),
    _named("sonarqube", "[0-9a-f]{40}", _HEX[:40]),
    _kind("sonar-token", r"sq[upa]_[0-9a-f]{40}", ("squ_", "sqp_", "sqa_"), "squ_" + _HEX[:40]),
    _named("travis", "[0-9a-z]{22}", _MIXED[:22]),
    _named("codecov", "[0-9a-z-]{32,36}", _HEX[:32]),
    _named("snyk", _UUID_PATTERN, _UUID),
    _prefixed("circleci-token", "CCIPAT_", r"[0-9A-Za-z]{22}_[0-9a-f]{40}", _MIXED[:22] + "_" + _HEX[:40]),
    _prefixed("circleci-project-token", "CCIPRJ_", r"[0-9A-Za-z]{22}_[0-9a-f]{40}", _MIXED[:22] + "_" + _HEX[:40]),
    _prefixed("buildkite-token", "bkua_", r"[0-9a-f]{40}", _HEX[:40]),
    _prefixed("buildkite-agent-token", "bkct_", r"[0-9A-Za-z_-]{32,}", _MIXED[:48]),
    _prefixed(
        "harness-token",
        "pat.",
        r"[0-9A-Za-z_-]{22}\.[0-9a-f]{24}\.[0-9A-Za-z]{20}",
        _MIXED[:22] + "." + _HEX[:24] + "." + _MIXED[:20],
    ),
    _prefixed("octopus-deploy-key", "API-", r"[A-Z0-9]{26,31}", _UPPER[:26]),
    _prefixed("sourcegraph-token", "sgp_", r"(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}", _HEX[:40]),
)

_MODELS = (
    _prefixed("openai-project-key", "sk-proj-", r"[0-9A-Za-z_-]{40,}", _MIXED[:120]),
    _prefixed("openai-service-key", "sk-svcacct-", r"[0-9A-Za-z_-]{40,}", _MIXED[:120]),
    _prefixed("openai-admin-key", "sk-admin-", r"[0-9A-Za-z_-]{40,}", _MIXED[:120]),
    _prefixed("openai-key", "sk-", r"[0-9A-Za-z]{32,}", _MIXED[:48]),
    _kind(
        "openai-marked-key",
        r"sk-[0-9A-Za-z_-]{16,}T3BlbkFJ[0-9A-Za-z_-]{16,}",
        ("sk-",),
        "sk-" + _MIXED[:20] + "T3BlbkFJ" + _MIXED[:20],
    ),
    _prefixed("anthropic-key", "sk-ant-", r"[0-9A-Za-z_-]{32,}", "api03-" + _MIXED[:93] + "AA"),
    _prefixed("openrouter-key", "sk-or-v1-", r"[0-9a-f]{64}", _HEX[:64]),
    _prefixed("langfuse-secret-key", "sk-lf-", _UUID_PATTERN, _UUID),
    _prefixed("huggingface-token", "hf_", r"[0-9A-Za-z]{34,}", _MIXED[:34]),
    _prefixed("huggingface-organisation-token", "api_org_", r"[0-9A-Za-z]{34,}", _MIXED[:34]),
    _prefixed("replicate-token", "r8_", r"[0-9A-Za-z]{37,}", _MIXED[:37]),
    _prefixed("groq-key", "gsk_", r"[0-9A-Za-z]{48,}", _MIXED[:52]),
    _prefixed("xai-key", "xai-", r"[0-9A-Za-z]{64,}", _MIXED[:80]),
    _prefixed("perplexity-key", "pplx-", r"[0-9A-Za-z]{40,}", _MIXED[:48]),
    _prefixed("fireworks-key", "fw_", r"[0-9A-Za-z]{22,}", _MIXED[:24]),
    _prefixed("langsmith-key", "lsv2_", r"(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}", "pt_" + _HEX[:32] + "_" + _HEX[:10]),
    _prefixed("pinecone-key", "pcsk_", r"[0-9A-Za-z]{4,}_[0-9A-Za-z]{40,}", _MIXED[:6] + "_" + _MIXED[:63]),
    _prefixed("nvidia-key", "nvapi-", r"[0-9A-Za-z_-]{60,}", _MIXED[:64]),
    _prefixed("tavily-key", "tvly-", r"[0-9A-Za-z_-]{32,}", _MIXED[:32]),
    _prefixed("voyage-key", "pa-", r"[0-9A-Za-z_-]{43}", _MIXED[:43]),
    _prefixed("cerebras-key", "csk-", r"[0-9a-z]{48}", _LOWER[:48]),
    _named("cohere", "[0-9a-z]{40}", _MIXED[:40]),
    _named("mistral", "[0-9a-z]{32}", _MIXED[:32]),
    _named("together", "[0-9a-f]{64}", _HEX[:64]),
    _named("deepgram", "[0-9a-f]{40}", _HEX[:40]),
    _named("assemblyai", "[0-9a-f]{32}", _HEX[:32]),
    _named("elevenlabs", "[0-9a-f]{32}", _HEX[:32]),
    _kind("elevenlabs-secret-key", r"sk_[0-9a-f]{48}", ("sk_",), "sk_" + _HEX[:48]),
    _named("wandb", "[0-9a-f]{40}", _HEX[:40]),
)

_CHAT_AND_MAIL = (
    _kind(
        "slack-bot-token",
        r"xoxb-[0-9A-Za-z-]{20,}",
        ("xoxb-",),
        "xoxb-" + _DIGITS[:12] + "-" + _DIGITS[:12] + "-" + _MIXED[:24],
    ),
    _kind(
        "slack-user-token",
        r"xox[pe]-[0-9A-Za-z-]{20,}",
        ("xoxp-", "xoxe-"),
        "xoxp-" + _DIGITS[:12] + "-" + _DIGITS[:12] + "-" + _HEX[:32],
    ),
    _kind(
        "slack-legacy-token",
        r"xox[aosrc]-[0-9A-Za-z-]{20,}",
        ("xoxa-", "xoxo-", "xoxs-", "xoxr-", "xoxc-"),
        "xoxs-" + _DIGITS[:12] + "-" + _MIXED[:24],
    ),
    _kind("slack-session-token", r"xoxd-[0-9A-Za-z%+/=_-]{20,}", ("xoxd-",), "xoxd-" + _MIXED[:80]),
    _kind(
        "slack-rotating-token", r"xoxe\.xox[bp]-[0-9]-[0-9A-Za-z]{60,}", ("xoxe.xox",), "xoxe.xoxb-1-" + _MIXED[:160]
    ),
    _kind(
        "slack-app-token",
        r"xapp-[0-9]-[A-Z0-9]{6,}-[0-9]{6,}-[0-9a-f]{32,}",
        ("xapp-",),
        "xapp-1-" + _UPPER[:11] + "-" + _DIGITS[:13] + "-" + _HEX[:64],
    ),
    _kind("slack-config-token", r"xwfp-[0-9A-Za-z-]{20,}", ("xwfp-",), "xwfp-" + _MIXED[:60]),
    _kind(
        "slack-webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[0-9A-Za-z/_-]{20,})",
        ("hooks.slack.com/",),
        "https://hooks.slack.com/services/" + "T" + _UPPER[:8] + "/B" + _UPPER[:8] + "/" + _MIXED[:24],
    ),
    SecretKind(
        "discord-bot-token",
        r"[MNO][0-9A-Za-z_-]{23,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,38}",
        (),
        "MT" + _MIXED[:24] + "." + _MIXED[:6] + "." + _MIXED[:38],
    ),
    _kind("discord-mfa-token", r"mfa\.[0-9A-Za-z_-]{84}", ("mfa.",), "mfa." + _MIXED[:84]),
    _kind(
        "discord-webhook",
        r"discord(?:app)?\.com/api/webhooks/[0-9]{16,20}/(?P<secret>[0-9A-Za-z_-]{60,})",
        ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
        "https://discord.com/api/webhooks/" + _DIGITS[:18] + "/" + _MIXED[:68],
    ),
    SecretKind(
        "telegram-bot-token", r"[0-9]{8,10}:AA[0-9A-Za-z_-]{32,33}", (":aa",), _DIGITS[:10] + ":AA" + _MIXED[:33]
    ),
    _kind(
        "teams-webhook",
        r"webhook\.office\.com/webhookb2/(?P<secret>[0-9a-f@/A-Za-z-]{80,})",
        ("webhook.office.com/",),
        "https://acme.webhook.office.com/webhookb2/"
        + _UUID
        + "@"
        + _UUID
        + "/IncomingWebhook/"
        + _HEX[:32]
        + "/"
        + _UUID,
    ),
    _kind(
        "google-chat-webhook",
        r"chat\.googleapis\.com/v1/spaces/[0-9A-Za-z_-]{4,24}/messages\?(?P<secret>[0-9A-Za-z_=&%-]{40,})",
        ("chat.googleapis.com/",),
        "https://chat.googleapis.com/v1/spaces/AAAAbbbb/messages?key=" + _MIXED[:39] + "&tok" + "en=" + _MIXED[:43],
    ),
    _kind("twilio-api-key", r"SK[0-9a-f]{32}", ("sk",), "SK" + _HEX[:32]),
    _named("twilio", "[0-9a-f]{32}", _HEX[:32]),
    _kind(
        "sendgrid-key",
        r"SG\.[0-9A-Za-z_-]{20,24}\.[0-9A-Za-z_-]{39,50}",
        ("sg.",),
        "SG." + _MIXED[:22] + "." + _MIXED[:43],
    ),
    _kind("mailgun-prefixed-key", r"key-[0-9a-f]{32}", ("key-",), "key-" + _HEX[:32]),
    _named("mailgun", "[0-9a-f]{32}", _HEX[:32]),
    SecretKind("mailchimp-key", r"[0-9a-f]{32}-us[0-9]{1,2}", ("-us",), _HEX[:32] + "-us12"),
    _kind(
        "brevo-key", r"xkeysib-[0-9a-f]{64}-[0-9A-Za-z]{16}", ("xkeysib-",), "xkeysib-" + _HEX[:64] + "-" + _MIXED[:16]
    ),
    _kind(
        "brevo-smtp-key",
        r"xsmtpsib-[0-9a-f]{64}-[0-9A-Za-z]{16}",
        ("xsmtpsib-",),
        "xsmtpsib-" + _HEX[:64] + "-" + _MIXED[:16],
    ),
    _named("mailjet", "[0-9a-f]{32}", _HEX[:32]),
    _kind("mandrill-key", r"md-[0-9A-Za-z_-]{22}", ("md-",), "md-" + _MIXED[:22]),
    _named("postmark", _UUID_PATTERN, _UUID),
    _prefixed("resend-key", "re_", r"[0-9A-Za-z]{8}_[0-9A-Za-z]{24}", _MIXED[:8] + "_" + _MIXED[:24]),
    _named("sparkpost", "[0-9a-f]{40}", _HEX[:40]),
    _named("messagebird", "[0-9a-z]{25}", _MIXED[:25]),
    _named("vonage", "[0-9a-z]{16}", _MIXED[:16]),
    _named("intercom", "[0-9a-z=_-]{60}", _MIXED[:60]),
    _named("zendesk", "[0-9a-z]{40}", _MIXED[:40]),
    _prefixed("mattermost-webhook", "/hooks/", r"[0-9a-z]{26}", _LOWER[:26]),
)

_MONEY = (
    _kind(
        "stripe-secret-key",
        r"sk_(?:live|test|prod)_[0-9A-Za-z]{16,}",
        ("sk_live_", "sk_test_", "sk_prod_"),
        "sk_" + "live_" + _MIXED[:24],
    ),
    _kind(
        "stripe-restricted-key",
        r"rk_(?:live|test|prod)_[0-9A-Za-z]{16,}",
        ("rk_live_", "rk_test_", "rk_prod_"),
        "rk_" + "live_" + _MIXED[:24],
    ),
    _kind("stripe-webhook-secret", r"whsec_[0-9A-Za-z+/=]{24,}", ("whsec_",), "whsec_" + _MIXED[:32]),
    _kind("square-access-token", r"EAAA[0-9A-Za-z_+=/-]{56,60}", ("eaaa",), "EAAA" + _MIXED[:60]),
    _kind(
        "square-oauth-secret",
        r"sq0(?:csp|atp|idp)-[0-9A-Za-z_-]{22,43}",
        ("sq0csp-", "sq0atp-", "sq0idp-"),
        "sq0csp-" + _MIXED[:43],
    ),
    _kind(
        "paypal-braintree-token",
        r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}",
        ("access_token$",),
        "access_token$" + "production$" + _LOWER[:16] + "$" + _HEX[:32],
    ),
    _named("paypal", "[0-9a-z_-]{64,80}", _MIXED[:80]),
    _named("plaid", "[0-9a-f]{30}", _HEX[:30]),
    _kind(
        "plaid-access-token",
        rf"access-(?:sandbox|development|production)-{_UUID_PATTERN}",
        ("access-sandbox-", "access-development-", "access-production-"),
        "access-production-" + _UUID,
    ),
    _kind("shopify-access-token", r"shpat_[0-9a-fA-F]{32}", ("shpat_",), "shpat_" + _HEX[:32]),
    _kind("shopify-custom-token", r"shpca_[0-9a-fA-F]{32}", ("shpca_",), "shpca_" + _HEX[:32]),
    _kind("shopify-private-token", r"shppa_[0-9a-fA-F]{32}", ("shppa_",), "shppa_" + _HEX[:32]),
    _kind("shopify-shared-secret", r"shpss_[0-9a-fA-F]{32}", ("shpss_",), "shpss_" + _HEX[:32]),
    _kind(
        "razorpay-key",
        r"rzp_(?:live|test)_[0-9A-Za-z]{14,}",
        ("rzp_live_", "rzp_test_"),
        "rzp_" + "live_" + _MIXED[:14],
    ),
    _kind("flutterwave-secret-key", r"FLWSECK(?:_TEST)?-[0-9A-Za-z]{12,}", ("flwseck",), "FLWSECK-" + _HEX[:32] + "-X"),
    _kind("paystack-key", r"sk_(?:live|test)_[0-9a-f]{40}", ("sk_live_", "sk_test_"), "sk_" + "live_" + _HEX[:40]),
    _kind("gocardless-token", r"live_[0-9A-Za-z_=-]{40,}", ("live_",), "live_" + _MIXED[:40]),
    _kind("adyen-key", r"AQE[a-z0-9]{4,5}[0-9A-Za-z+/_-]{60,}", ("aqe",), "AQEyh" + "mf" + _MIXED[:90]),
    _named("coinbase", "[0-9a-z_-]{64}", _MIXED[:64]),
    _named("binance", "[0-9a-z]{64}", _MIXED[:64]),
    _named("kraken", "[0-9a-z/=+-]{80,90}", _MIXED[:86]),
    _kind(
        "ethereum-private-key",
        r"(?i)(?:eth|wallet|private)[a-z_ -]{0,20}key[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<secret>0x[0-9a-f]{64})",
        ("eth", "wallet", "private"),
        "wallet_private_key = 0x" + _HEX[:64],
    ),
    _kind(
        "bitcoin-extended-key",
        r"[xyz]prv[1-9A-HJ-NP-Za-km-z]{100,}",
        ("xprv", "yprv", "zprv"),
        "xprv9" + _MIXED.replace("0", "8")[:106],
    ),
    _kind("easypost-key", r"EZ[AT]K[0-9A-Za-z]{54}", ("ezak", "eztk"), "EZAK" + _LOWER[:54]),
    _kind("lob-key", r"(?:live|test)_(?:pub_)?[0-9a-f]{31,35}", ("live_", "test_"), "live_" + _HEX[:35]),
    _kind("shippo-token", r"shippo_(?:live|test)_[0-9a-f]{40}", ("shippo_",), "shippo_live_" + _HEX[:40]),
)

_SERVICES = (
    _kind(
        "jwt",
        r"eyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}(?:\.[0-9A-Za-z_-]*)?",
        ("eyj",),
        "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiI0MiJ9" + "." + _MIXED[:43],
    ),
    _kind(
        "base64-jwt",
        r"ZXlK[0-9A-Za-z+/_-]{40,}={0,2}",
        ("zxlk",),
        "ZXlK" + "aGJHY2lPaUpJVXpJMU5pSjku" + _MIXED[:60],
    ),
    _kind(
        "encrypted-jwt",
        r"eyJ[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]*\.[0-9A-Za-z_-]{12,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{16,}",
        ("eyj",),
        "eyJ" + "hbGciOiJkaXIiLCJlbmMi" + ".." + _MIXED[:16] + "." + _MIXED[:40] + "." + _MIXED[:22],
    ),
    _kind(
        "jwk-private-part",
        r'"d"[ \t]{0,2}:[ \t]{0,2}"(?P<secret>[0-9A-Za-z_-]{40,})',
        ('"d"',),
        '"d": "' + _MIXED[:86] + '"',
    ),
    _kind("age-secret-key", r"AGE-SECRET-KEY-1[0-9A-Z]{58}", ("age-secret-key-1",), "AGE-SECRET-KEY-1" + _UPPER[:58]),
    _kind("vault-service-token", r"hvs\.[0-9A-Za-z_-]{24,}", ("hvs.",), "hvs." + _MIXED[:90]),
    _kind("vault-batch-token", r"hvb\.[0-9A-Za-z_-]{60,}", ("hvb.",), "hvb." + _MIXED[:120]),
    _kind("vault-recovery-token", r"hvr\.[0-9A-Za-z_-]{24,}", ("hvr.",), "hvr." + _MIXED[:24]),
    _kind(
        "vault-legacy-token",
        r"(?i)vault[a-z0-9_. -]{0,24}[\"'\]]{0,2}[ \t]{0,4}(?:=|:)[ \t]{0,4}[\"']?(?P<secret>s\.[0-9a-z]{24})",
        ("vault",),
        "VAULT_KEY=s." + _MIXED[:24],
    ),
    SecretKind(
        "terraform-cloud-token",
        r"[0-9A-Za-z]{14}\.atlasv1\.[0-9A-Za-z_=-]{60,70}",
        (".atlasv1.",),
        _MIXED[:14] + ".atlasv1." + _MIXED[:67],
    ),
    _kind("openshift-token", r"sha256~[0-9A-Za-z_-]{43}", ("sha256~",), "sha256~" + _MIXED[:43]),
    _kind("pulumi-token", r"pul-[0-9a-f]{40}", ("pul-",), "pul-" + _HEX[:40]),
    _kind("doppler-token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[0-9A-Za-z_.-]{40,}", ("dp.",), "dp.pt." + _MIXED[:43]),
    _kind(
        "infisical-token",
        r"st\.[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}",
        ("st.",),
        "st." + _HEX[:24] + "." + _HEX[:32] + "." + _HEX[:32],
    ),
    _kind("onepassword-service-token", r"ops_eyJ[0-9A-Za-z+/]{100,}={0,2}", ("ops_eyj",), "ops_eyJ" + _MIXED[:200]),
    _kind(
        "onepassword-secret-key",
        r"A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5})?",
        ("a3-",),
        "A3-" + "-".join((_UPPER[:6], _UPPER[:6], _UPPER[:5], _UPPER[5:10], _UPPER[:5], _UPPER[5:10])),
    ),
    _kind("databricks-token", r"dapi[0-9a-f]{32}(?:-[0-9])?", ("dapi",), "dapi" + _HEX[:32]),
    _kind(
        "snowflake-token",
        r"ver:1-hint:[0-9]{4,}-[0-9A-Za-z+/=_-]{100,}",
        ("ver:1-hint:",),
        "ver:1-hint:" + _DIGITS[:8] + "-" + _MIXED[:160],
    ),
    _kind(
        "planetscale-token", r"pscale_(?:tkn|oauth|pw)_[0-9A-Za-z_=.-]{32,}", ("pscale_",), "pscale_tkn_" + _MIXED[:43]
    ),
    _kind("supabase-token", r"sbp_(?:v0_)?[0-9a-f]{40}", ("sbp_",), "sbp_" + _HEX[:40]),
    _kind("supabase-secret-key", r"sb_secret_[0-9A-Za-z_-]{24,}", ("sb_secret_",), "sb_secret_" + _MIXED[:31]),
    _kind("neon-key", r"napi_[0-9a-z]{60,}", ("napi_",), "napi_" + _LOWER[:64]),
    _kind(
        "fly-token",
        r"fm[12][ar]?_[0-9A-Za-z+/=_-]{80,}",
        ("fm1_", "fm2_", "fm1a_", "fm1r_", "fm2a_", "fm2r_"),
        "fm2_" + _MIXED[:120],
    ),
    _kind("fly-oauth-token", r"fo1_[0-9A-Za-z_-]{40,}", ("fo1_",), "fo1_" + _MIXED[:43]),
    _kind("render-key", r"rnd_[0-9A-Za-z]{28,}", ("rnd_",), "rnd_" + _MIXED[:28]),
    _kind(
        "vercel-token", r"vc[pikar]_[0-9A-Za-z]{24,}", ("vcp_", "vci_", "vck_", "vca_", "vcr_"), "vcp_" + _MIXED[:56]
    ),
    _kind(
        "vercel-blob-token",
        r"vercel_blob_rw_[0-9A-Za-z]{16}_[0-9A-Za-z]{30,}",
        ("vercel_blob_rw_",),
        "vercel_blob_rw_" + _MIXED[:16] + "_" + _MIXED[:30],
    ),
    _named("vercel", "[0-9a-z]{24}", _MIXED[:24]),
    _kind(
        "netlify-token", r"nf[pucob]_[0-9A-Za-z]{36,}", ("nfp_", "nfu_", "nfc_", "nfo_", "nfb_"), "nfp_" + _MIXED[:36]
    ),
    _named("netlify", "[0-9a-z=_-]{40,46}", _MIXED[:43]),
    _kind("heroku-token", r"HRKU-[0-9A-Za-z_-]{36,}", ("hrku-",), "HRKU-" + "AA" + _MIXED[:58]),
    _named("heroku", _UUID_PATTERN, _UUID),
    _named("cloudflare", "[0-9a-z_-]{37,40}", _MIXED[:40]),
    _kind(
        "cloudflare-origin-key", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}", ("v1.0-",), "v1.0-" + _HEX[:24] + "-" + _HEX[:146]
    ),
    _named("fastly", "[0-9a-z=_-]{32}", _MIXED[:32]),
    _named("akamai", "[0-9a-z-]{20,}", _MIXED[:52]),
    _kind(
        "akamai-edgegrid-token",
        r"akab-[0-9a-z]{16}-[0-9a-z]{16}",
        ("akab-",),
        "akab-" + _LOWER[:16] + "-" + _LOWER[:16],
    ),
    _kind("grafana-api-key", r"eyJrIjoi[0-9A-Za-z]{60,}={0,2}", ("eyjrijoi",), "eyJrIjoi" + _MIXED[:80]),
    _kind("grafana-cloud-token", r"glc_[0-9A-Za-z+/]{32,}={0,2}", ("glc_",), "glc_" + _MIXED[:80]),
    _kind(
        "grafana-service-token",
        r"glsa_[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}",
        ("glsa_",),
        "glsa_" + _MIXED[:32] + "_" + _HEX[:8],
    ),
    _kind("new-relic-user-key", r"NRAK-[0-9A-Z]{27}", ("nrak-",), "NRAK-" + _UPPER[:27]),
    _kind("new-relic-insert-key", r"NRI[IQ]-[0-9A-Za-z_-]{32}", ("nrii-", "nriq-"), "NRII-" + _MIXED[:32]),
    _kind("new-relic-browser-key", r"NRJS-[0-9a-f]{19}", ("nrjs-",), "NRJS-" + _HEX[:19]),
    SecretKind("new-relic-licence-key", r"[0-9a-f]{36}NRAL", ("nral",), _HEX[:36] + "NRAL"),
    _kind("sentry-user-token", r"sntryu_[0-9a-f]{64}", ("sntryu_",), "sntryu_" + _HEX[:64]),
    _kind(
        "sentry-organisation-token", r"sntrys_eyJ[0-9A-Za-z+/=_-]{80,}", ("sntrys_eyj",), "sntrys_eyJ" + _MIXED[:160]
    ),
    _named("sentry", "[0-9a-f]{64}", _HEX[:64]),
    _kind(
        "dynatrace-token",
        r"dt0[a-z][0-9]{2}\.[A-Z0-9]{24}\.[A-Z0-9]{64}",
        ("dt0",),
        "dt0c01." + _UPPER[:24] + "." + _UPPER[:64],
    ),
    _named("datadog", "[0-9a-f]{32,40}", _HEX[:40]),
    _kind("datadog-app-key", r"ddapp_[0-9A-Za-z]{34,}", ("ddapp_",), "ddapp_" + _MIXED[:34]),
    _kind(
        "datadog-dd-key",
        r"(?i)dd_(?:api|app)_key[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?(?P<secret>[0-9a-f]{32,40})",
        ("dd_api_key", "dd_app_key"),
        "DD_API_KEY: " + _HEX[:32],
    ),
    _kind("pagerduty-user-token", r"pdus\+[0-9A-Za-z_+/-]{16,}", ("pdus+",), "pdus+_" + _MIXED[:24]),
    _named("pagerduty", "[0-9a-z+_-]{20}", _MIXED[:20]),
    _named("opsgenie", _UUID_PATTERN, _UUID),
    _named("rollbar", "[0-9a-f]{32}", _HEX[:32]),
    _named("bugsnag", "[0-9a-f]{32}", _HEX[:32]),
    _named("honeycomb", "[0-9a-z]{22,}", _MIXED[:22]),
    _kind(
        "honeycomb-ingest-key",
        r"hc[abc]i[ck]_[0-9a-z]{58}",
        ("hcaic_", "hcbik_", "hcaik_", "hccik_", "hcbic_", "hccic_"),
        "hcaik_" + _LOWER[:58],
    ),
    _kind("posthog-personal-key", r"ph[xs]_[0-9A-Za-z]{40,}", ("phx_", "phs_"), "phx_" + _MIXED[:43]),
    _named("amplitude", "[0-9a-f]{32}", _HEX[:32]),
    _named("mixpanel", "[0-9a-f]{32}", _HEX[:32]),
    _named("segment", "[0-9a-z]{32}", _MIXED[:32]),
    _named("algolia", "[0-9a-f]{32}", _HEX[:32]),
    _kind("launchdarkly-sdk-key", rf"(?:sdk|api|mob)-{_UUID_PATTERN}", ("sdk-", "api-", "mob-"), "sdk-" + _UUID),
    _kind("linear-key", r"lin_(?:api|oauth)_[0-9A-Za-z]{32,}", ("lin_api_", "lin_oauth_"), "lin_api_" + _MIXED[:40]),
    _kind("notion-token", r"ntn_[0-9A-Za-z]{40,}", ("ntn_",), "ntn_" + _MIXED[:46]),
    _kind("notion-legacy-token", r"secret_[0-9A-Za-z]{43}", ("secret_",), "secret_" + _MIXED[:43]),
    _kind("figma-token", r"fig[dour]_[0-9A-Za-z_-]{36,}", ("figd_", "figo_", "figu_", "figr_"), "figd_" + _MIXED[:40]),
    _kind("airtable-token", r"pat[0-9A-Za-z]{14}\.[0-9a-f]{64}", ("pat",), "pat" + _MIXED[:14] + "." + _HEX[:64]),
    _named("airtable", "key[0-9a-z]{14}", "key" + _MIXED[:14]),
    _named("asana", "(?:[12]/)?[0-9/]{12,40}:[0-9a-f]{32}", "1/" + _DIGITS[:16] + ":" + _HEX[:32]),
    _kind("clickup-token", r"pk_[0-9]{6,10}_[0-9A-Z]{32}", ("pk_",), "pk_" + _DIGITS[:8] + "_" + _UPPER[:32]),
    _named("trello", "[0-9a-f]{32,64}", _HEX[:64]),
    _named("jira", "[0-9a-z]{24}", _MIXED[:24]),
    _named("confluence", "[0-9a-z]{24}", _MIXED[:24]),
    _kind("postman-key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", ("pmak-",), "PMAK-" + _HEX[:24] + "-" + _HEX[:34]),
    _kind("typeform-token", r"tfp_[0-9A-Za-z_.=-]{40,}", ("tfp_",), "tfp_" + _MIXED[:59]),
    _kind("contentful-token", r"CFPAT-[0-9A-Za-z_-]{43}", ("cfpat-",), "CFPAT-" + _MIXED[:43]),
    _kind("prefect-key", r"pn[ub]_[0-9a-z]{36}", ("pnu_", "pnb_"), "pnu_" + _LOWER[:36]),
    _kind("readme-key", r"rdme_[0-9a-z]{70}", ("rdme_",), "rdme_" + _LOWER[:70]),
    _kind("frameio-token", r"fio-u-[0-9A-Za-z_=-]{64}", ("fio-u-",), "fio-u-" + _MIXED[:64]),
    _kind("dropbox-token", r"sl\.(?:u\.)?[0-9A-Za-z_-]{120,}", ("sl.",), "sl.B" + _MIXED[:140]),
    _named("dropbox", "[0-9a-z]{15}", _MIXED[:15]),
    _named("ngrok", "[0-9a-z]{27}_[0-9a-z]{21}", _MIXED[:27] + "_" + _MIXED[:21]),
    _kind("facebook-token", r"EAA[A-Z][0-9A-Za-z]{80,}", ("eaa",), "EAAB" + _MIXED[:120]),
    _named("facebook", "[0-9a-f]{32}", _HEX[:32]),
    _kind("instagram-token", r"IG(?:QV|AA)[0-9A-Za-z_-]{80,}", ("igqv", "igaa"), "IGQV" + _MIXED[:120]),
    _kind(
        "twitter-bearer-token",
        r"AAAAAAAAAAAAAAAAAAAA[0-9A-Za-z%]{40,}",
        ("aaaaaaaaaaaaaaaaaaaa",),
        "A" * 22 + _MIXED[:60],
    ),
    _named("twitter", "[0-9a-z]{35,50}", _MIXED[:50]),
    _kind(
        "linkedin-secret",
        r"WPL_AP[01]\.[0-9A-Za-z]{16}\.[0-9A-Za-z+/=]{6,}",
        ("wpl_ap",),
        "WPL_AP1." + _MIXED[:16] + "." + _MIXED[:8] + "==",
    ),
    _named("linkedin", "[0-9a-z]{16}", _MIXED[:16]),
    _named("spotify", "[0-9a-f]{32}", _HEX[:32]),
    _named("twitch", "[0-9a-z]{30}", _MIXED[:30]),
    _named("okta", "00[0-9a-z_-]{40}", "00" + _MIXED[:40]),
    _named("auth0", "[0-9a-z_-]{64}", _MIXED[:64]),
    _named("clerk", "[0-9a-z]{40,}", _MIXED[:44]),
    _kind(
        "tailscale-key",
        r"tskey-[a-z]{2,12}-[0-9A-Za-z_-]{16,}",
        ("tskey-",),
        "tskey-auth-" + _MIXED[:12] + "-" + _MIXED[:32],
    ),
    _kind(
        "mapbox-secret-token",
        r"sk\.eyJ[0-9A-Za-z_-]{60,}\.[0-9A-Za-z_-]{20,}",
        ("sk.eyj",),
        "sk.eyJ" + _MIXED[:80] + "." + _MIXED[:22],
    ),
    _named("maxmind", "[0-9a-z]{6}_[0-9a-z]{29}_mmk", _MIXED[:6] + "_" + _MIXED[:29] + "_mmk"),
    _kind("duffel-token", r"duffel_(?:live|test)_[0-9A-Za-z_=-]{43}", ("duffel_",), "duffel_live_" + _MIXED[:43]),
    _kind("hubspot-token", rf"pat-(?:na|eu|ap)[0-9]-{_UUID_PATTERN}", ("pat-",), "pat-na1-" + _UUID),
    _kind(
        "salesforce-session",
        r"00D[0-9A-Za-z]{12,15}![0-9A-Za-z_.]{80,}",
        ("00d",),
        "00D" + _MIXED[:12] + "!" + _MIXED[:96],
    ),
    _kind("salesforce-refresh-token", r"5Aep861[0-9A-Za-z_.]{60,}", ("5aep861",), "5Aep861" + _MIXED[:80]),
    _kind("scalr-token", r"at-[0-9a-z]{10,}\.[0-9A-Za-z_-]{40,}", ("at-",), "at-" + _LOWER[:15] + "." + _MIXED[:43]),
    _kind(
        "rails-master-key",
        r"(?i)rails_master_key[ \t]{0,2}[:=][ \t]{0,2}(?P<secret>[0-9a-f]{32})",
        ("rails_master_key",),
        "RAILS_MASTER_KEY=" + _HEX[:32],
    ),
    _kind(
        "django-secret-key",
        r"django-insecure-[^\x00-\x20\"'`\\]{30,}",
        ("django-insecure-",),
        "django-insecure-" + _MIXED[:50],
    ),
    _kind(
        "laravel-app-key",
        r"(?i)app_key=(?P<secret>base64:[a-z0-9+/]{40,}={0,2})",
        ("app_key=",),
        "APP_KEY=base64:" + _MIXED[:43] + "=",
    ),
    _kind(
        "shadow-hash",
        r"\$(?:1|5|6|y|2[abxy])\$[0-9A-Za-z./$=,]{20,}",
        ("$1$", "$5$", "$6$", "$y$", "$2a$", "$2b$", "$2x$", "$2y$"),
        "$6$" + _MIXED[:16] + "$" + _MIXED[:86],
    ),
    _kind(
        "argon2-hash",
        r"\$argon2(?:id|i|d)\$[0-9A-Za-z+/$=,]{30,}",
        ("$argon2",),
        "$argon2id$v=19$m=65536,t=3,p=4$" + _MIXED[:22] + "$" + _MIXED[:43],
    ),
    _kind(
        "kubernetes-bootstrap-token",
        r"(?i)(?:bootstrap|kubeadm)[a-z0-9_ -]{0,24}[\"']?[ \t]{0,4}[:= ][ \t]{0,4}"
        r"(?P<secret>[0-9a-z]{6}\.[0-9a-z]{16})",
        ("bootstrap", "kubeadm"),
        "kubeadm join: " + _LOWER[:6] + "." + _LOWER[:16],
    ),
    _kind(
        "kubeconfig-key-data",
        r"client-key-data:[ \t]{0,4}(?P<secret>[0-9A-Za-z+/]{40,}={0,2})",
        ("client-key-data",),
        "client-key-data: " + _MIXED[:120],
    ),
    _kind(
        "wireguard-private-key",
        r"(?i)(?:privatekey|presharedkey)[ \t]{0,2}=[ \t]{0,2}(?P<secret>[a-z0-9+/]{43}=)",
        ("privatekey", "presharedkey"),
        "PrivateKey = " + _MIXED[:43] + "=",
    ),
    _kind(
        "shell-cred-export",
        r"(?i)sshpass[ \t]{1,4}-p[ \t]{0,4}[\"']?(?P<secret>[^\x00-\x20\"']{4,})",
        ("sshpass",),
        "sshpass -p " + _MIXED[:12],
    ),
    _kind(
        "mysql-option",
        r"(?:mysql|mysqldump|mysqladmin|mariadb)[a-zA-Z0-9_. @-]{0,60} -p"
        r"(?P<secret>[^\x00-\x20\"'*-][^\x00-\x20\"'*]{5,})",
        ("mysql", "mariadb"),
        "mysql -u root -p" + _MIXED[:12],
        "bare",
    ),
)

KINDS: Final[tuple[SecretKind, ...]] = (
    *_BLOCKS,
    *_PAIRS,
    *_CLOUDS,
    *_FORGES,
    *_MODELS,
    *_CHAT_AND_MAIL,
    *_MONEY,
    *_SERVICES,
)
