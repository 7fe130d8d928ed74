"""Configuration files: what each says, and every fault with its line and column."""

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import config
from penstock.configuration import Document, Fault, Faults, FaultyConfigurationError, ServerGate, read_server
from penstock.configuration.reader import settings_of
from penstock.serving.plan import Plan, plan_of
from penstock.tokens import Jwt, SignedUrl

SECRET = "a secret of 32 bytes, from a safe"
# Without it a server serves nothing.
ORIGIN = 'origin = "http://o:1"\n'


def read(text: str, directory: Path = Path("/nowhere")) -> config.Server:
    document = Document.parse(text.encode(), "penstock.toml", directory)
    faults = Faults()
    server = read_server(document, faults)
    faults.check()
    assert server is not None
    return server


def planned(text: str, directory: Path = Path("/nowhere"), before: Plan | None = None) -> Plan:
    document = Document.parse(text.encode(), "penstock.toml", directory)
    faults = Faults()
    server = read_server(document, faults)
    plan = None if server is None else plan_of(server, document, faults, before)
    faults.check()
    assert plan is not None
    return plan


def faults_of(text: str, directory: Path = Path("/nowhere")) -> list[str]:
    with pytest.raises(FaultyConfigurationError) as caught:
        planned(text, directory)
    assert all(isinstance(fault, Fault) for fault in caught.value.faults)
    return str(caught.value).splitlines()


def test_an_empty_file_says_the_defaults() -> None:
    assert read("") == config.Server()


def test_keys_are_the_fields_of_the_classes() -> None:
    server = read(
        """
        listen = ":8443"
        drain = 5
        memory = "64MiB"
        pool.prefault = 0
        http2 = false
        access_log = false

        [cache]
        memory = "16MiB"

        [caching]
        lifetime = 2
        targets = ["CDN-Cache-Control"]

        [timeouts]
        queue = false
        first_byte = 3

        [origins.live]
        urls = ["http://a:1", { url = "http://b:1", weight = 3, backup = false }]
        balance = "least-loaded"
        check = { path = "/health" }

        [[routes]]
        prefix = "/live/"
        origin = "live"
        headers = { Cookie = false, X-Tenant = "blue" }
        add_headers = [["Via", "me"]]
        caching = false
        limits = { rate = 10.5 }

        [[sites]]
        listen = "unix:/run/p.sock"
        """
    )
    assert server.listen == ":8443"
    assert server.drain == 5.0
    assert server.pool == config.Pool(memory="64MiB", prefault=0)
    assert server.http2 is None
    assert server.access_log is None
    assert server.cache == config.Cache(memory="16MiB")
    assert server.caching == config.Caching(lifetime=2, targets=("CDN-Cache-Control",))
    assert server.timeouts == config.Timeouts(queue=None, first_byte=3)
    assert server.origins["live"].urls == ("http://a:1", config.Origin("http://b:1", weight=3))
    (route,) = server.routes
    assert route.headers == {"Cookie": None, "X-Tenant": "blue"}
    assert route.add_headers == (("Via", "me"),)
    assert route.caching is False
    assert route.limits == config.RouteLimits(rate=10.5)
    assert server.sites[0].listen == "unix:/run/p.sock"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[cache", "1:7: unclosed table"),
        ("a = 1\nb = \n", "2:5: "),
        ('x = "é" y', "1:9: "),
        ("listen = 1\nlisten = 2", "2:1: duplicate key"),
        ("threads = 99999999999999999999", "1:11: 99999999999999999999 is too large"),
        (f"{'a.' * 70}b = 1", "1:128: a key has 64 names at most"),
        ("memry = 1", "1:1: memry: is no setting; did you mean memory?"),
        ("zzz = 1", "1:1: zzz: is no setting"),
        ("[cache]\nmemroy = 1", "2:1: cache.memroy: is no setting; did you mean memory?"),
        ('[cache]\nmemory = "much"', "2:10: cache.memory: 'much': is no size: write bytes, or text such as"),
        ("[cache]\nmemory = true", "2:10: cache.memory: true: must be a whole number or a text, not a truth"),
        ("cache = 3", "1:9: cache: 3: must be a table or false, not a number"),
        ("cache = 1979-05-27", "1:9: cache: must be a table or false, not a time"),
        ('drain = "soon"', "1:9: drain: 'soon': must be a number, not a text"),
        ("drain = 1e9", "1:9: drain: 1000000000.0: must be seconds from 0 on"),
        ("drain = nan", "1:9: drain: nan: must be seconds"),
        ("threads = 1.5", "1:11: threads: 1.5: must be a whole number or false, not a number"),
        (
            'timeouts.total = "none"',
            "1:18: timeouts.total: 'none': must be a number or false, not a text; false stands",
        ),
        (
            "timeouts.total = -1",
            "1:18: timeouts.total: -1.0: must be seconds above 0 and at most a year or false",
        ),
        (
            'log_level = "warn"',
            "1:13: log_level: 'warn': must be one of debug, info, warning, error; did you mean",
        ),
        ('listen = "nowhere"', "1:10: listen: 'nowhere': must be HOST:PORT"),
        ('listen = ["a"]', "1:10: listen: must be a text, not an array"),
        ('edge = { tls = { cert = "a" } }', "1:10: edge.tls: is not written here: the table [tls] says it"),
        ('[tls]\ncert = "no.pem"', "2:8: tls.cert: /nowhere/no.pem does not exist"),
        ("[tls]", "1:2: tls.cert: TLS takes a certificate"),
        ("[workers]\nmemory = 1", "1:2: workers: needs the key count"),
        ('caching.tags = ["a", 1]', "1:22: caching.tags[1]: 1: must be a text, not a number"),
        (
            '[[routes]]\nadd_headers = [["a"]]',
            "2:16: routes[0].add_headers[0]: must have 2 values, and has 1",
        ),
        ("[gates]\na = 1", "2:5: gates.a: must be a table, not a number"),
        ("[gates.a]", "1:8: gates.a: needs the key kind, one of 'signed-url', 'jwt'"),
        ('gates.a.kind = "jwr"', "1:16: gates.a.kind: 'jwr': must be one of 'signed-url', 'jwt'"),
        ('[gates.a]\nkind = "signed-url"\nkeys = "short"', "1:8: gates.a: SignedUrl.keys: each must have 16"),
        ('[gates.a]\nkind = "jwt"', "1:8: gates.a: Jwt: either keys or jwks must be given"),
        ('[gates.a]\nkind = "signed-url"', "1:8: gates.a: needs the key keys"),
        ("memory = 1\npool.memory = 2", "1:1: memory: it is short for pool.memory, which is given as well"),
    ],
)
def test_a_fault_has_its_line_its_column_and_its_setting(text: str, says: str) -> None:
    assert any(line.startswith(f"penstock.toml:{says}") for line in faults_of(text)), faults_of(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1:1: it serves nothing: it has neither origin nor routes nor app"),
        (
            '[[routes]]\norigin = "vido"\n[origins.video]\nurls = "http://o:1"',
            "2:10: routes[0].origin: 'vido': there is no [origins.vido]; did you mean video?",
        ),
        (f'{ORIGIN}[[routes]]\ngate = "a"', "3:8: routes[0].gate: 'a': there is no [gates.a]"),
        (
            f'{ORIGIN}[[routes]]\nprefix = "live"',
            "3:10: routes[0].prefix: prefix is 'live'; it must be like '/vod/'",
        ),
        (f'{ORIGIN}[[routes]]\nhost = "a/b"', "3:8: routes[0].host: host is 'a/b'"),
        (
            f'{ORIGIN}[[routes]]\n[[routes]]\nprefix = "/"',
            "4:10: routes[1].prefix: '/': another route has this",
        ),
        (
            f'{ORIGIN}[[routes]]\nheaders = {{ Host = "a\\u0001" }}',
            "3:1: routes[0].headers: headers: the value of Host",
        ),
        ('origin = "o:80"', "1:10: origins.default.urls: 'o:80' is no origin: write 'http://o:80'"),
        (f'{ORIGIN}memory = "1MiB"\n[cache]\nmemory = "1MiB"', "4:10: cache.memory: at most half of memory"),
        (f"{ORIGIN}[workers]\ncount = 2", "2:2: workers: only with app"),
        (f'{ORIGIN}app = "a:b"', "1:1: origins: only without app"),
        ('app = "a:b"\n[cache]', "2:2: cache: only without app, or with workers"),
        (f'{ORIGIN}lane = "app"\n[[routes]]', "3:1: routes: only with the lane native"),
        (
            f'{ORIGIN}[[sites]]\nlisten = "127.0.0.1:8080"',
            "3:10: sites[0].listen: '127.0.0.1:8080': another site",
        ),
    ],
)
def test_what_does_not_go_together_is_named_where_it_is_said(text: str, says: str) -> None:
    assert any(line.startswith(f"penstock.toml:{says}") for line in faults_of(text)), faults_of(text)


def test_all_faults_are_named_at_once_in_the_order_of_the_lines() -> None:
    lines = faults_of('drain = "a"\nthreads = 0.5\n[cache]\nmemory = "b"\nx = 1\n')
    assert [line.split(": ")[:2] for line in lines] == [
        ["penstock.toml:1:9", "drain"],
        ["penstock.toml:2:11", "threads"],
        ["penstock.toml:4:10", "cache.memory"],
        ["penstock.toml:5:1", "cache.x"],
    ]


def test_what_is_no_text_or_not_there_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(FaultyConfigurationError, match=r"a\.toml:1:1: cannot be read: No such file"):
        Document.read(path)
    path.write_bytes(b"a = 1\nb = '\xff'")
    with pytest.raises(FaultyConfigurationError, match=r"a\.toml:2:6: a byte that is not UTF-8"):
        Document.read(path)
    path.write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(FaultyConfigurationError, match="larger than 1 MiB"):
        Document.read(path)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "c.pem").touch()
    server = read(
        'listen = "unix:p.sock"\n[tls]\ncert = "c.pem"\n[cache]\ndisk = "d"\ndisk_budget = "1MiB"\n'
        '[access_log]\npath = "-"\n[origin_tls]\nroots = "webpki"\n',
        tmp_path,
    )
    assert server.listen == f"unix:{tmp_path}/p.sock"
    assert server.tls is not None
    assert server.tls.cert == f"{tmp_path}/c.pem"
    assert server.cache is not None
    assert server.cache.disk == tmp_path / "d"
    assert server.access_log == config.AccessLog()
    assert server.origin_tls.roots == "webpki"


def test_gates_are_the_classes_of_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", SECRET)
    gates = read(
        """
        [gates.urls]
        kind = "signed-url"
        keys = { file = "key" }
        places = ["query"]
        [gates.named]
        kind = "signed-url"
        keys.new = { env = "PENSTOCK_TEST_SECRET" }
        keys.old = "another secret of 32 bytes"
        [gates.jwt]
        kind = "jwt"
        jwks = { url = "https://issuer.example/keys", algorithms = ["ES256"] }
        audiences = "media"
        access = { tenant_limits = { streams = 3 } }
        [gates.own]
        kind = "jwt"
        [[gates.own.keys]]
        algorithm = "HS256"
        key = { env = "PENSTOCK_TEST_SECRET" }
        [[gates.own.keys]]
        kty = "oct"
        alg = "HS256"
        k = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
        """,
        tmp_path,
    ).gates
    assert all(isinstance(gate, ServerGate) for gate in gates.values())
    assert gates["urls"].verifying == SignedUrl(SECRET, places=("query",))
    assert gates["named"].verifying == SignedUrl({"new": SECRET, "old": "another secret of 32 bytes"})
    assert isinstance(gates["jwt"].verifying, Jwt)
    assert gates["jwt"].access.tenant_limits.streams == 3
    assert len(gates["own"].verifying.keys) == 2


def test_a_secret_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST_SECRET", "hunter2")
    (tmp_path / "key").write_text("hunter2\n")
    for said in ('{ env = "PENSTOCK_TEST_SECRET" }', '{ file = "key" }'):
        for text in (
            f'[gates.a]\nkind = "signed-url"\nkeys = {said}',
            f"[origins.a]\nurls = {said}",
            f"listen = {said}",
            f"[tracing]\nheaders = {{ a = {said} }}\nratio = 2",
        ):
            lines = faults_of(text, tmp_path)
            assert lines
            assert not any("hunter2" in line for line in lines), lines


def test_a_reference_that_leads_nowhere_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(b"\xff")
    for said, says in (
        ('{ env = "PENSTOCK_NO_SUCH" }', "the environment has no variable PENSTOCK_NO_SUCH"),
        ('{ file = "none" }', "none cannot be read: No such file or directory"),
        ('{ file = "raw" }', "what it leads to is not UTF-8"),
        (f'{{ file = "{tmp_path}" }}', "cannot be read: Is a directory"),
    ):
        assert faults_of(f"listen = {said}", tmp_path)[0].endswith(says)


def test_what_is_said_in_the_same_way_is_carried_over() -> None:
    text = (
        '[origins.a]\nurls = ["http://a:1", "http://b:1"]\n[gates.g]\nkind = "signed-url"\n'
        f'keys = "{SECRET}"\n[[routes]]\norigin = "a"\ngate = "g"\n'
    )
    first = planned(text)
    same = planned(text + 'prefix = "/x/"\n', before=first)
    assert same.origins["a"] is first.origins["a"]
    assert same.gates["g"] is first.gates["g"]
    assert same.sites[0].routes != first.sites[0].routes
    other = planned(text.replace("//b", "//c").replace("a secret", "b secret"), before=first)
    assert other.origins["a"] is not first.origins["a"]
    assert other.gates["g"] is not first.gates["g"]


def test_every_setting_of_a_class_can_be_read() -> None:
    """The type of each field is one that the reader knows: else a file could not say it."""
    seen: set[type] = set()

    def visit(cls: type) -> None:
        if cls in seen:
            return
        seen.add(cls)
        for name, hint in settings_of(cls).items():
            assert str(hint), name
            for part in _parts(hint):
                if isinstance(part, type) and is_dataclass(part):
                    visit(part)

    visit(config.Server)
    assert {config.Pool, config.TLS, config.HSTS, config.ServerRoute, config.TenantLimits} - seen == {
        config.TenantLimits
    }, "gates have an Access"
    assert all(field.name in settings_of(config.Cache) for field in fields(config.Cache))


def _parts(hint: Any) -> list[Any]:
    arguments = getattr(hint, "__args__", ())
    return [hint, *(part for argument in arguments for part in _parts(argument))]


KEYS = sorted({*settings_of(config.Server), "memory", "origin", "kind", "keys", "file", "env", "x"})
SCALARS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1).map(str),
    st.floats().map(str),
    st.booleans().map(lambda value: str(value).lower()),
    st.sampled_from(
        ['"64KiB"', '"http://a:1"', '"/a/"', '"none"', '""', "1979-05-27", '"signed-url"', '"jwt"']
    ),
    st.text(
        st.characters(codec="utf-8", exclude_characters="'\n\r", exclude_categories=["Cc"]), max_size=8
    ).map(lambda text: f"'{text}'"),
)


def _names(cls: type) -> list[str]:
    return list(settings_of(cls))


NAMES = sorted(
    {
        name
        for value in vars(config).values()
        if isinstance(value, type) and is_dataclass(value)
        for name in _names(value)
    }
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from([*NAMES, *KEYS]), inner, max_size=3).map(
            lambda items: "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"
        ),
    ),
    max_leaves=6,
)
TABLES = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4).map(
    lambda items: "\n".join(f"{key} = {value}" for key, value in items.items())
)


def _config_or_faults(raw: bytes) -> None:
    try:
        document = Document.parse(raw, "f", Path("/nowhere"))
        faults = Faults()
        server = read_server(document, faults)
        if server is not None:
            plan_of(server, document, faults)
        faults.check()
    except FaultyConfigurationError as error:
        lines = raw.decode("utf-8", "replace").count("\n") + 1
        for fault in error.faults:
            assert fault.place.file == "f"
            assert 1 <= fault.place.line <= lines, fault
            assert fault.place.column >= 1
            assert fault.text
    else:
        assert isinstance(server, config.Server)


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
)
def test_any_bytes_are_a_configuration_or_faults(raw: bytes) -> None:
    _config_or_faults(raw)


@settings(max_examples=200, deadline=None)
@given(TABLES)
def test_any_table_is_a_configuration_or_faults(text: str) -> None:
    _config_or_faults(text.encode())


def _of_class(cls: type) -> st.SearchStrategy[str]:
    return st.dictionaries(st.sampled_from(_names(cls)), VALUES, min_size=1, max_size=4).map(
        lambda items: "{" + ", ".join(f"{key} = {value}" for key, value in items.items()) + "}"
    )


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(
        *(
            _of_class(cls).map(lambda text, where=where: f"{where} = {text}\n")
            for where, cls in (
                ("pool", config.Pool),
                ("cache", config.Cache),
                ("caching", config.Caching),
                ("edge", config.Edge),
                ("tls", config.TLS),
                ("tracing", config.Tracing),
                ("status", config.Status),
                ("access_log", config.AccessLog),
                ("forwarding", config.Forwarding),
                ("limits", config.OriginLimits),
                ("workers", config.Workers),
                ("origins.a", config.ServerOrigin),
            )
        ),
        _of_class(config.ServerRoute).map(lambda text: f"routes = [{text}]\n{ORIGIN}"),
        _of_class(config.ServerSite).map(lambda text: f"sites = [{text}]\n{ORIGIN}"),
        _of_class(SignedUrl).map(lambda text: f'gates.a = {text}\ngates.a.kind = "jwt"\n'),
        _of_class(Jwt).map(lambda text: f"[gates]\na = {text[:-1]}, kind = 'jwt'}}\n"),
        _of_class(SignedUrl).map(lambda text: f"[gates]\na = {text[:-1]}, kind = 'signed-url'}}\n"),
    )
)
def test_any_values_of_a_class_are_a_configuration_or_faults(text: str) -> None:
    _config_or_faults(text.encode())


def test_a_document_of_deep_values_is_read_or_refused() -> None:
    deep = 50_000
    for text in (f"a = {'[' * deep}", f"a = {'{b=' * deep}", ("a." * deep) + "b=1", f"[{'a.' * deep}b]"):
        assert faults_of(text)
