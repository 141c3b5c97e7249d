"""Secrets by shape: made-up ones of every kind are found, and ordinary text is left alone.

Longer than 500 lines because of the harmless lines written out in it.

Longer than 500 lines because it is one table of one subject.
"""

import importlib
import os
import random
import re
import string
import sysconfig
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import re2

from engines import DATABASE
from handrail.output.patterns import LEAD
from handrail.output.redact import KINDS, MARK, Redactor, SecretKind
from steps import steps_of

SCALE = int(os.environ.get("HANDRAIL_TEST_SCALE", "1"))
PLAIN = Redactor(engine="plain")
REDACTOR = Redactor(database=DATABASE)
PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " "
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def instance(pattern: str, source: random.Random) -> str:
    """Make up a text that matches `pattern`."""
    folded = pattern.startswith("(?i)")
    text = _many(_parsed(pattern.removeprefix("(?i)")), source)
    return "".join(source.choice((char.lower(), char.upper(), char)) for char in text) if folded else text


@cache
def _parsed(pattern: str) -> object:
    parser: Any = importlib.import_module("re._parser")  # private, and known to some type checkers only
    return parser.parse(pattern)


def _some(node: tuple[object, object], source: random.Random) -> str:
    name, value = str(node[0]), node[1]
    return _MAKERS[name](value, source)


def _many(tree: object, source: random.Random) -> str:
    return "".join(_some(node, source) for node in tree)  # type: ignore[attr-defined]


def _repeat(value: tuple[int, int, object], source: random.Random) -> str:
    least, most, tree = value
    return "".join(_many(tree, source) for _ in range(source.randint(least, min(most, least + 12))))


def _one_of(items: list[tuple[object, object]], source: random.Random) -> str:
    return source.choice(_choices(tuple(items)))


@cache
def _choices(items: tuple[tuple[object, object], ...]) -> str:
    return "".join(char for char in PRINTABLE if _is_in(ord(char), items))


def _is_in(code: int, items: tuple[tuple[object, object], ...]) -> bool:
    negated = str(items[0][0]) == "NEGATE"
    found = any(
        code == value if str(name) == "LITERAL" else value[0] <= code <= value[1]  # type: ignore[index]
        for name, value in items[negated:]
    )
    return found != negated


_MAKERS: dict[str, Callable[..., str]] = {
    "LITERAL": lambda value, _: chr(value),
    "NOT_LITERAL": lambda value, source: source.choice(PRINTABLE.replace(chr(value), "")),
    "IN": _one_of,
    "MAX_REPEAT": _repeat,
    "SUBPATTERN": lambda value, source: _many(value[3], source),
    "BRANCH": lambda value, source: _many(source.choice(value[1]), source),
}


def basic(kind: SecretKind, source: random.Random) -> str:
    """Make up an encoded pair of a name and a password."""
    pair = "".join(source.choices(string.ascii_lowercase, k=5)) + ":" + "".join(source.choices(PRINTABLE, k=12))
    return re.sub("bWU6[A-Za-z0-9=]*", b64encode(pair.encode()).decode(), kind.example)


def is_found(text: str, kind: SecretKind, redactor: Redactor) -> bool:
    """Tell whether what the kind calls the secret is gone from `text`."""
    found = re.search(kind.pattern.replace(r"\xff", "\xff"), text)
    assert found, (kind.name, text)
    secret = found["secret"] if "secret" in found.groupdict() else found[0]
    return secret not in redactor.text(f"before {text}\nafter")


@EVERY_KIND
def test_at_least_99_of_100_made_up_secrets_are_found(kind: SecretKind) -> None:
    """Each kind is found wherever it stands; by both engines alike."""
    source = random.Random(kind.name)
    count = 100 * SCALE
    texts = [basic(kind, source) if kind.shape == "basic" else instance(kind.pattern, source) for _ in range(count)]
    assert sum(is_found(text, kind, REDACTOR) for text in texts) >= 0.99 * count
    for text in texts[:20]:
        assert REDACTOR.spans(text) == PLAIN.spans(text)


@EVERY_KIND
def test_each_example_is_hidden_wherever_it_stands(kind: SecretKind) -> None:
    """In code, quotes, Markdown and other text."""
    for before, after in (("", ""), ("x = ", ";"), ('"', '"'), ("**", "**"), ("é ", " é\n")):
        text = before + kind.example + after
        assert MARK in REDACTOR.text(text)
        assert REDACTOR.spans(text) == PLAIN.spans(text)


@EVERY_KIND
def test_each_kind_keeps_the_rules_of_the_table(kind: SecretKind) -> None:
    """No anchors or boundaries; keywords are lower case, in the example, and near the start of every match."""
    compiled = re2.compile(kind.pattern)
    assert compiled.search(kind.example)
    assert compiled.groups <= 1
    assert not re.search(r"\bAT_|ASSERT|GROUPREF", repr(_parsed(kind.pattern.removeprefix("(?i)"))))
    assert all(keyword == keyword.lower() for keyword in kind.keywords)
    assert kind.lead <= LEAD
    source = random.Random(kind.name)
    for _ in range(50):
        text = instance(kind.pattern, source).lower()
        places = [text.find(keyword) for keyword in kind.keywords if keyword in text]
        assert not kind.keywords or (places and min(places) <= kind.lead), text


def test_there_are_many_kinds_with_names_of_their_own() -> None:
    """At least 160, and no name twice."""
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 160
    assert [kind.name for kind in KINDS if not kind.keywords] == ["discord-bot-token"]


VALUE = "kR7" + "vQ2mZx9Lp4"


@pytest.mark.parametrize(
    "line",
    [
        f"DB_PASSWORD={VALUE}",
        f"export GITHUB_TOKEN={VALUE}",
        f'API_KEY="{VALUE}"',
        f"  password: {VALUE}",
        f"  password: '{VALUE}'",
        f'{{"client_secret": "{VALUE}", "a": 1}}',
        f'{{"accessToken":"{VALUE}"}}',
        f'{{\\"password\\":\\"{VALUE}\\"}}',
        f"secret_key = {VALUE}",
        f"secret_key={VALUE}",
        f'os.environ["X_TOKEN"] = "{VALUE}"',
        f"$config['password'] = '{VALUE}';",
        f"Server=db;User Id=sa;Password={VALUE};Encrypt=true",
        f"https://me:{VALUE}@example.com/x",
        f"redis://:{VALUE}@cache:6379/0",
        f"https://host/cb?state=1&access_token={VALUE}&x=2",
        f"//registry.npmjs.org/:_authToken={VALUE}",
        f"curl -u me:{VALUE} https://host",
        f"tool login --password {VALUE} --verbose",
        f"tool login --token={VALUE}",
        f"machine host login me password {VALUE}",
        f"Authorization: Bearer {VALUE}{VALUE}",
        f"'Authorization': 'token {VALUE}'",
        f"<password>{VALUE}</password>",
        f"password := {VALUE!r}",
        f"PASSWORD={VALUE}&$(x",
        f"mysql -u root -p{VALUE} db",
        f'password = "pass phrase with 7 {VALUE}"',
    ],
)
def test_pairs_are_hidden_in_every_form(line: str) -> None:
    """Environment, YAML, JSON, INI, URLs, options, headers and code; the rest of the line stays."""
    for redactor in (REDACTOR, PLAIN):
        shown = redactor.text(line)
        assert VALUE not in shown
        assert shown.startswith(line[:4])


@pytest.mark.parametrize(
    "line", ["password=letmein", "password: letmein", "PASSWORD=correcthorse", '"passwd": "letmein"']
)
def test_a_plain_word_is_hidden_where_a_setting_is_written(line: str) -> None:
    """A weak password is one too."""
    assert MARK in REDACTOR.text(f"user: me\n{line}\nport: 1\n")


BENIGN = """\
token: str
token: str | None = None
password: string;
password = os.environ["DB_PASSWORD"]
password = os.getenv("DB_PASSWORD", "")
password = getpass.getpass("Password: ")
password = getpass()
token = request.headers.get("Authorization")
token = self._token
token = tokens[index]
secret = settings.SECRET_KEY
api_key=api_key,
api_key=self.api_key,
api_key = config.api_key
password=password
def login(user: str, password: str) -> Token:
def __init__(self, token: Optional[str] = None, secret: SecretStr | None = None):
if token == other_token:
if password != confirm_password:
assert token.type == TokenType.NAME
for token in tokenizer.tokenize(text):
TOKEN=<your-token>
TOKEN=${GITHUB_TOKEN}
TOKEN=$GITHUB_TOKEN
GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}
API_KEY=your-api-key
API_KEY=your_api_key_here
API_KEY=xxxxxxxxxxxxxxxxxxxx
api_key: "YOUR_API_KEY"
password: changeme
password: "changeme"
password: "<password>"
password: "{{ vault_password }}"
password: ********
password = "********"
PASSWORD=changeme
SECRET_KEY=changeme
SECRET_KEY=example-secret
token: null
token: none
password: true
password = None
password=None,
password: !vault |
password: ${DB_PASSWORD}
password: $DB_PASSWORD
PASSWORD=$(cat /run/secrets/db_password)
PASSWORD_FILE=/run/secrets/db_password
password_file: /run/secrets/db_password
TOKEN_PATH=/var/run/secrets/kubernetes.io/serviceaccount/token
token_url = "https://auth.example.org/oauth/token"
"token_type": "bearer"
"token_type": "Bearer", "expires_in": 3600
"max_tokens": 4096
max_tokens=4096, temperature=0.7
"total_tokens": 12345678
pad_token = "<pad>"
eos_token: "</s>"
"password": "Enter your password"
"password": "Password must not be empty."
"passwordLabel": "Password"
"secret": "The secret is required"
"token": "string"
"password": { "type": "string" }
password: Optional[str] = Field(default=None)
password: { type: String, required: true },
input type="password" name="password" autocomplete="off"
<label for="password">Password</label>
<password></password>
raise ValueError("invalid token: " + repr(token))
log.info("token=%s", token)
log.info(f"token={token!r}")
print("password:", password)
logger.debug("refreshing access token for %s", user)
Authorization: Bearer <token>
Authorization: Bearer ${TOKEN}
Authorization: Bearer $TOKEN
headers = {"Authorization": f"Bearer {token}"}
headers["Authorization"] = "Bearer " + token
bearer authentication is described in RFC 6750
Basic authentication is not supported
basic_auth = (username, password)
Basic realm="Restricted"
https://user:password@example.com/
https://user:pass@host/path
https://${USER}:${PASSWORD}@host/
postgresql://{user}:{password}@{host}/{db}
postgres://%s:%s@%s:%d/%s
http://localhost:8080/path@v1
http://127.0.0.1:5432/@scope/package
git+https://github.com/acme/tool.git@v1.2.3
git@github.com:acme/tool.git
npm install @types/node@20.1.0
2f1d6f6e3a8b4c5d9e0f1a2b3c4d5e6f7a8b9c0d
commit 9fceb02d0ae598e95dc970b74767f19372d61af8
sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
etag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
550e8400-e29b-41d4-a716-446655440000
request_id=550e8400-e29b-41d4-a716-446655440000
trace_id=4bf92f3577b34da6a3ce929d0e0e4736 span_id=00f067aa0ba902b7
traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
"integrity": "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="
click==8.1.7 --hash=sha256:ae74fb96c20a0277a1d615f1e4d73c8414f5a98db8b799a7931d1582f3390c28
checksum = "f2cf4d5d7b0c9b1c3a8e4b5d6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a"
data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
-----BEGIN CERTIFICATE-----
-----BEGIN PUBLIC KEY-----
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1mK5b7wqz9d0yX2t3m4n5p6q7r8s9t0u1v2w3x4y5z me@host
if line.startswith("-----BEGIN RSA PRIVATE KEY-----"):
PRIVATE KEY blocks begin with -----BEGIN PRIVATE KEY----- and end with -----END PRIVATE KEY-----.
docker run -u 1000:1000 image
docker run -u root:root image
chown -R www-data:www-data /srv
mysql -u root -p
mysql -p database
ssh -p 2222 host
pip install --password-stdin
gh auth login --with-token
vault kv get -field=password secret/app
kubectl get secret app-secret -o yaml
kubectl create secret generic db --from-file=password=./password.txt
secret "db-credentials" created
Error: secret "app" not found
secrets: inherit
secretKeyRef: { name: app, key: password }
secretName: app-tls-certificate
key: value
primary_key=True
PRIMARY_KEY = "id"
CACHE_KEY=user_profile_cache_version
sort_key = lambda item: item.name
foreign_key: users.id
sk-learn and task-runner are packages
the risk-management-framework-for-organisations document
disk-usage-analyzer-for-large-filesystems-2024
from sklearn.model_selection import train_test_split
npm_config_registry=https://registry.npmjs.org/
AKIAIOSFODNN7EXAMPLE
aws_access_key_id = YOUR_ACCESS_KEY
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
sk-ant-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
xoxb-your-token-here
glpat-xxxxxxxxxxxxxxxxxxxx
PWD=/home/me/project
OLDPWD=/home/me
PATH=/usr/local/bin:/usr/bin:/bin
SSH_AUTH_SOCK=/run/user/1000/keyring/ssh
credentials: include
credentials="same-origin"
credentials = Credentials.from_file(path)
fetch(url, { credentials: "include" })
access_key: String,
private_key: RSAPrivateKey,
private_key=load_pem_private_key(data)
session_key = generate_session_key()
token = secrets.token_urlsafe(32)
token = jwt.encode(payload, key, algorithm="HS256")
const token = await getAccessToken();
const { token } = useAuth();
let password = document.getElementById("password").value;
token := r.Header.Get("X-Token")
Token  string `json:"token"`
password varchar(255) NOT NULL
CREATE USER app WITH PASSWORD :'password';
ALTER TABLE tokens ADD COLUMN token_hash bytea;
[auth] token expired after 3600 seconds
INFO token refreshed for user 42
WARN password attempt 3 of 5 failed
password reset email sent
2024-05-01T12:00:00Z GET /api/tokens/refresh 200 13ms
assertEqual(token, expected_token)
@pytest.mark.parametrize("token", ["a", "b"])
Cookie: <cookie>
Set-Cookie: name=value
cookie: consent banner text
""".splitlines()


def generated_benign(source: random.Random) -> list[str]:
    """Make up lines with random values that are no secrets."""
    hexes = [f"{source.getrandbits(size * 4):0{size}x}" for size in (32, 40, 64, 128) for _ in range(10)]
    blob = "".join(source.choices(string.ascii_letters + string.digits + "+/", k=400))
    return [
        *hexes,
        *(f"blob {value[:8]} sha256={value}" for value in hexes),
        *(f'"resolved": "https://registry.npmjs.org/a/-/a-1.0.{at}.tgz#{value}"' for at, value in enumerate(hexes)),
        *(f"{source.choice('+-')} {blob[at : at + 76]}" for at in range(0, 300, 10)),
    ]


def test_ordinary_lines_stay_as_they_are() -> None:
    """At most 5 % of hundreds of tricky but harmless lines are touched; of those written out here, none."""
    lines = [*BENIGN, *generated_benign(random.Random(1))]
    assert len(lines) >= 300
    assert [line for line in BENIGN if REDACTOR.text(line) != line] == []
    touched = [line for line in lines if not PLAIN.clean(line)]
    assert len(touched) <= 0.05 * len(lines)
    assert REDACTOR.spans("\n".join(BENIGN)) == PLAIN.spans("\n".join(BENIGN))


def test_installed_source_code_stays_as_it_is() -> None:
    """Of megabytes of real code, less than one line in a thousand is touched."""
    root = Path(sysconfig.get_paths()["purelib"])
    files = sorted(root.glob("*/**/*.py"))[:: max(1, 12 // SCALE)]
    lines = touched = 0
    for file in files[: 400 * SCALE]:
        text = file.read_text(encoding="utf-8", errors="replace")
        lines += text.count("\n")
        touched += len(REDACTOR.spans(text))
    assert lines > 10_000
    assert touched <= lines / 1000


@pytest.mark.parametrize(
    "word", ["a", "A", "aB", "0", "-", "=", ".", "x_", "password=", 'token="', "://a:", "eyJ", "sk-"]
)
def test_no_text_takes_long(word: str) -> None:
    """Neither engine is slowed down by text made to slow it down: what is added costs as much as before."""
    for redactor in (REDACTOR, PLAIN):
        for shape in ("{}", "password={}!", 'token = "{} '):
            sizes = (9_000, 13_500, 18_000)
            short, middle, long = (_steps(redactor, shape.format((word * size)[:size])) for size in sizes)
            assert long - middle <= 1.3 * (middle - short) + 200, (shape, short, middle, long)


def _steps(redactor: Redactor, text: str) -> int:
    redactor.spans(text)  # what is compiled once is not counted
    return steps_of(lambda: redactor.spans(text))
