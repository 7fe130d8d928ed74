"""Options, the environment and the file say one configuration, in this order."""

from pathlib import Path
from typing import Any

import click
import pytest
import trustme
from click.testing import CliRunner

from penstock import config
from penstock.cli import main, serve
from penstock.cli_config import SETTINGS, Configuration, variable_of
from penstock.cli_serving import planned
from penstock.configuration.reader import settings_of
from support.certificates import written

# What each option is given, as text, and what the setting then is. `None` for a flag.
GIVEN: dict[str, tuple[str | None, Any]] = {
    "app": ("module:app", "module:app"),
    "origin": ("https://o:1", ("https://o:1",)),
    "listen": ("127.0.0.1:1", "127.0.0.1:1"),
    "drain": ("2", 2.0),
    "upgrade_timeout": ("3", 3.0),
    "status_listen": ("127.0.0.1:2", "127.0.0.1:2"),
    "traces": ("http://t:1/v1/traces", "http://t:1/v1/traces"),
    "traces_ratio": ("0.5", 0.5),
    "trust_trace_context": (None, True),
    "memory": ("32MiB", 32 << 20),
    "cache": ("8MiB", 8 << 20),
    "cache_disk": ("DIR", None),
    "cache_disk_size": ("1GiB", 1 << 30),
    "cache_stale": ("7", 7.0),
    "control": ("unix:/c", "unix:/c"),
    "threads": ("2", 2),
    "connections": ("9", 9),
    "ca": ("PEM", None),
    "origin_cert": ("PEM", None),
    "origin_key": ("PEM", None),
    "origin_http2": (None, True),
    "client_connections": ("3", 3),
    "client_requests": ("4", 4),
    "tls_cert": ("PEM", None),
    "tls_key": ("PEM", None),
    "tls_dir": ("DIR", None),
    "tls_unknown_names": ("refuse", "refuse"),
    "tls_min_version": ("1.3", "1.3"),
    "tls_clients": ("optional", "optional"),
    "tls_client_ca": ("PEM", None),
    "tls_crl": ("PEM", None),
    "tls_ticket_keys": ("PEM", None),
    "no_http2": (None, None),
    "http_redirect": ("127.0.0.1:80", "127.0.0.1:80"),
    "http_redirect_port": ("444", 444),
    "hsts": ("31536000", 31536000),
    "hsts_subdomains": (None, True),
    "hsts_preload": (None, True),
    "acme_dir": ("DIR", None),
    "grpc_health": (None, True),
    **{f"{name}_timeout": ("6", 6.0) for name in config.Timeouts.__dataclass_fields__},
    "forwarded": (None, True),
    "trust_forwarded": (None, True),
    "preserve_host": (None, True),
    "lane": ("app", "app"),
    "workers": ("2", 2),
    "worker_memory": ("2MiB", 2 << 20),
    "worker_start_timeout": ("8", 8.0),
    "worker_hang": ("11", 11.0),
    "uvloop": (None, True),
    "access_log": (None, config.AccessLog()),
    "access_log_file": ("FILE", None),
    "access_log_format": ("json", "json"),
    "log_level": ("error", "error"),
}
OPTIONS = [parameter.name for parameter in serve.params if parameter.name != "config"]
# What an option goes with.
NEEDS = {
    "cache_disk": ("cache", "cache_disk_size"),
    "cache_disk_size": ("cache", "cache_disk"),
    "cache_stale": ("cache",),
    "traces_ratio": ("traces",),
    "origin_key": ("origin_cert",),
    "worker_memory": ("workers",),
    "worker_start_timeout": ("workers",),
    "worker_hang": ("workers",),
    "workers": ("app",),
    "hsts_subdomains": ("hsts",),
    "hsts_preload": ("hsts", "hsts_subdomains"),
    "http_redirect_port": ("http_redirect",),
    "tls_clients": ("tls_client_ca", "tls_cert"),
    "tls_client_ca": ("tls_clients",),
    "tls_crl": ("tls_clients",),
    **dict.fromkeys(
        ("tls_key", "tls_unknown_names", "tls_min_version", "tls_ticket_keys", "http_redirect", "hsts"),
        ("tls_cert",),
    ),
}


@pytest.fixture
def values(tmp_path: Path) -> dict[str, str | None]:
    """What each option is given; files are there."""
    pem = tmp_path / "some.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n")
    places = {"PEM": str(pem), "DIR": str(tmp_path), "FILE": str(tmp_path / "log")}
    return {name: None if text is None else places.get(text, text) for name, (text, _) in GIVEN.items()}


def needed(name: str) -> list[str]:
    """The options that are given with one, and itself."""
    found = [name]
    for each in found:
        found += [other for other in NEEDS.get(each, ()) if other not in found]
    if "app" not in found and "origin" not in found:
        found.append("origin")
    return found


def arguments(names: list[str], values: dict[str, str | None]) -> list[str]:
    flags = {parameter.name: parameter for parameter in serve.params}
    given = []
    for name in names:
        value = values[name]
        if isinstance(flags[name], click.Argument):
            assert value is not None
            given.append(value)
        else:
            given += [flags[name].opts[0], *([] if value is None else [value])]
    return given


def configured(given: list[str]) -> Configuration:
    """What the command makes of its arguments."""
    with serve.make_context("serve", given) as ctx:
        return Configuration.of_context(ctx)


def value_of(server: config.Server, name: str) -> Any:
    found: Any = server
    for part in SETTINGS[name]:
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    return found


def expected(name: str, values: dict[str, str | None]) -> Any:
    _, wanted = GIVEN[name]
    if wanted is None and name != "no_http2":
        wanted = values[name]
    return wanted


def test_each_option_has_a_setting_that_a_file_can_say() -> None:
    assert set(OPTIONS) == set(SETTINGS) == set(GIVEN)
    for path in SETTINGS.values():
        hints = settings_of(config.Server)
        assert path[0] in hints, path


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_says_its_setting_by_itself_by_a_variable_and_in_a_file(
    name: str, values: dict[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = needed(name)
    by_options = configured(arguments(names, values)).server()
    found = value_of(by_options, name)
    assert (str(found) if isinstance(found, Path) else found) == expected(name, values)
    # A variable for each of them.
    for each in names:
        monkeypatch.setenv(variable_of(each), values[each] or "1")
    by_variables = configured([])
    assert by_variables.server() == by_options
    assert {said.label for said in by_variables.said.values()} == {variable_of(each) for each in names}
    for each in names:
        monkeypatch.delenv(variable_of(each))
    # What was said, as a file.
    path = tmp_path / "penstock.toml"
    path.write_text(_as_toml(by_variables))
    assert configured(["--config", str(path)]).server() == by_options


def _as_toml(configuration: Configuration) -> str:
    """The document of a configuration, as dotted keys."""
    lines = []

    def write(node: Any, before: str) -> None:
        for key, child in node.value.items():
            if isinstance(child.value, dict):
                write(child, f"{before}{key}.")
            else:
                lines.append(f"{before}{key} = {_literal(child.value)}")

    write(configuration.document.root, "")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_literal(node.value) for node in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('origin = "http://file:1"\nmemory = "1MiB"\ndrain = 1\nthreads = 1\nhttp2 = false\n')
    monkeypatch.setenv("PENSTOCK_DRAIN", "2")
    monkeypatch.setenv("PENSTOCK_THREADS", "2")
    monkeypatch.setenv("PENSTOCK_NO_HTTP2", "0")
    monkeypatch.setenv("PENSTOCK_CONFIG", str(path))
    server = configured(["--threads", "3"]).server()
    assert (server.pool.memory, server.drain, server.threads) == (1 << 20, 2.0, 3)
    assert server.http2 == config.Http2()
    assert server.log_level == config.Server().log_level
    monkeypatch.setenv("PENSTOCK_ORIGIN", "http://a:1 http://b:1")
    assert configured([]).server().origins["default"].urls == ("http://a:1", "http://b:1")


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("PENSTOCK_DRAIN", "soon", "Invalid value for 'PENSTOCK_DRAIN': 'soon' is not a valid float range"),
        ("PENSTOCK_MEMORY", "much", "Invalid value for 'PENSTOCK_MEMORY': 'much': is no size"),
        ("PENSTOCK_CACHE_STALE", "1", "PENSTOCK_CACHE_STALE: only with --cache"),
        ("PENSTOCK_LOG_LEVEL", "loud", "Invalid value for 'PENSTOCK_LOG_LEVEL': 'loud' is not one of"),
        ("PENSTOCK_LISTEN", "here", "Invalid value for 'PENSTOCK_LISTEN': 'here' must be HOST:PORT"),
        (
            "PENSTOCK_GRPC_HEALTH",
            "perhaps",
            "Invalid value for 'PENSTOCK_GRPC_HEALTH': 'perhaps' is not a valid",
        ),
        ("PENSTOCK_CONFIG", "/no/such", "/no/such:1:1: cannot be read: No such file or directory"),
    ],
)
def test_an_error_names_the_variable(
    variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    result = CliRunner().invoke(main, ["serve", "--origin", "http://o"], prog_name="penstock")
    assert result.exit_code == 2
    assert says in result.output


def test_options_replace_what_a_file_says_of_them_alone(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    pem, key = written(trustme.CA(), tmp_path, "a.example")
    path.write_text(
        f"""
        access_log = false
        [tls]
        cert = "{pem}"
        key = "{key}"
        [cache]
        memory = "8MiB"
        max_variants = 7
        [origins.default]
        urls = "http://file:1"
        timeouts = {{ queue = 1 }}
        """
    )
    given = ["--config", str(path), "--cache", "9MiB", "--origin", "http://o:1", "--cache-stale", "1"]
    server = planned(configured([*given, "--access-log-format", "json", "--hsts", "5"])).server
    assert server.cache == config.Cache(memory="9MiB", max_variants=7)
    assert server.caching.stale_if_error == 1
    assert server.origins["default"] == config.ServerOrigin(
        urls=("http://o:1",), timeouts=config.Timeouts(queue=1)
    )
    assert server.tls is not None
    assert server.tls.hsts == config.HSTS(max_age=5)
    assert configured(["--config", str(path), "--access-log"]).server().access_log == config.AccessLog()


def test_faults_of_a_file_are_printed_and_the_command_ends_with_2(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('origin = "http://o:1"\ndrain = "x"\n[cache]\nmemory = "much"\n')
    for command in (
        ["serve", "--config", str(path)],
        ["check", str(path)],
        ["doctor", "--config", str(path)],
    ):
        result = CliRunner().invoke(main, command, prog_name="penstock")
        assert result.exit_code == 2
        assert result.output.splitlines() == [
            f"{path}:2:9: drain: 'x': must be a number, not a text",
            f"{path}:4:10: cache.memory: 'much': is no size: write bytes, or text such as '64KiB', '256MiB' or '1TiB'",
        ]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["a:b", "--origin", "http://o"], "give either --origin URL or MODULE:APP"),
        (["a:b"], "origins: only without app"),
        (["--workers", "2"], "--workers: only with MODULE:APP"),
        (["--hsts", "5"], "--hsts: only with --tls-cert or --tls-dir"),
        (["--memory", "1MiB"], "cache.memory: at most half of memory"),
    ],
)
def test_options_that_do_not_go_with_the_file_are_refused(
    given: list[str], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('origin = "http://o:1"\n[cache]\nmemory = "1MiB"\n')
    result = CliRunner().invoke(main, ["serve", "--config", str(path), *given], prog_name="penstock")
    assert result.exit_code == 2
    assert says in result.output
