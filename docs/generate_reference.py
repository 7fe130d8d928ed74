"""Writes docs/reference from the sources: docstrings, signatures, settings, options and error codes.

    python docs/generate_reference.py            write the pages
    python docs/generate_reference.py --check    exit with 1 if a page is not what would be written

Everything but the table of codes and the command's options is read from the syntax tree, so that the pages
come out the same on every Python that penstock supports.
"""
# ruff: noqa: INP001 (a script, and no package)

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

import penstock
from penstock._field_docs import texts_under_fields
from penstock.cli import main as command
from penstock.cli import serve
from penstock.cli_config import SETTINGS, variable_of
from penstock.configuration.gates import KINDS
from penstock.configuration.reader import ELSEWHERE

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "python" / "penstock"
REFERENCE: Final = ROOT / "docs" / "reference"
NOTE: Final = (
    "<!-- Written by docs/generate_reference.py: change the docstrings, then run it. -->\n<!-- fmt: off -->\n"
)

# Bases that the reference does not name.
_HIDDEN: Final = ("Shared",)
_SECTIONS: Final = ("Args", "Attributes", "Raises", "Returns")
_ITEM: Final = re.compile(r"(\w+(?:\.\w+)*): (.*)", re.DOTALL)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse(path: str) -> dict[str, ast.stmt]:
    """The definitions of a module by name; `""` is the module's docstring."""
    tree = ast.parse((PACKAGE / path).read_text())
    found: dict[str, ast.stmt] = {"": tree.body[0]}
    for node in tree.body:
        if isinstance(node, ast.ClassDef | Function):
            found[node.name] = node
    return found


def prose(text: str) -> str:
    """A docstring as Markdown: Google's sections become lists, literal blocks become fences."""
    out: list[str] = []
    lines = inspect.cleandoc(text).splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        title = line.removesuffix(":")
        indented = list(_indented(lines[at + 1 :]))
        if title != line and title in _SECTIONS:
            out += [f"**{ {'Args': 'Arguments'}.get(title, title) }**", "", *_items(indented)]
            at += len(indented)
        elif line.endswith("::"):
            block = inspect.cleandoc("\n".join(indented))
            language = "text" if "├" in block else "python"
            out += [line.removesuffix(":"), "", f"```{language}", *block.splitlines(), "```", ""]
            at += len(indented)
        else:
            out.append(line)
        at += 1
    return "\n".join(out).strip() + "\n"


def _indented(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if line and not line.startswith(" "):
            return
        yield line


def _items(lines: list[str]) -> list[str]:
    """The entries of a section, one line each; a section may also be plain text."""
    entries: list[str] = []
    for line in inspect.cleandoc("\n".join(lines)).splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line:
            entries.append(line)
    matches = [_ITEM.fullmatch(entry) for entry in entries]
    if all(matches):
        return [f"- `{match[1]}`: {match[2]}" for match in matches if match] + [""]
    return [*entries, ""]


def doc(node: ast.AST) -> str:
    """The docstring of a definition, as Markdown."""
    assert isinstance(node, ast.ClassDef | Function | ast.Module)  # noqa: S101 (says it to mypy)
    return prose(ast.get_docstring(node) or "")


def module_doc(node: ast.stmt) -> str:
    """A module's docstring, as Markdown."""
    assert isinstance(node, ast.Expr)  # noqa: S101
    return prose(ast.literal_eval(node.value))


def signature(node: Function, *, drop_first: bool) -> str:
    """The parameters and what is returned, as they stand in the source."""
    parameters = node.args
    if drop_first:
        rest = parameters.posonlyargs[1:], parameters.args[1:]
        if not parameters.posonlyargs:
            rest = [], parameters.args[1:]
        parameters = ast.arguments(
            posonlyargs=rest[0],
            args=rest[1],
            vararg=parameters.vararg,
            kwonlyargs=parameters.kwonlyargs,
            kw_defaults=parameters.kw_defaults,
            kwarg=parameters.kwarg,
            defaults=parameters.defaults,
        )
    returned = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"({ast.unparse(parameters)}){returned}"


def fields(node: ast.ClassDef) -> list[tuple[str, str, str | None, str]]:
    """Name, type, default and docstring of the annotated attributes that are documented or have a value."""
    texts = texts_under_fields(node)
    found = []
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign):
            continue
        name = ast.unparse(statement.target)
        if name.startswith("_"):
            continue
        default = None if statement.value is None else ast.unparse(statement.value).replace("'", '"')
        text = " ".join(texts.get(name, "").split())
        found.append((name, ast.unparse(statement.annotation), default, text))
    return found


def field_table(node: ast.ClassDef) -> str:
    """The fields of a dataclass as a table."""
    rows = fields(node)
    if not rows:
        return ""
    defaults = any(row[2] is not None for row in rows)
    header = "| field | type | default | meaning |" if defaults else "| field | type | meaning |"
    lines = [header, re.sub(r"[^|]+", "---", header)]
    for name, kind, default, text in rows:
        value = "" if default is None else f"`{default}`"
        cells = [f"`{name}`", f"`{kind}`".replace("|", "\\|"), *([value] if defaults else []), text]
        lines.append("| " + " | ".join(cells).replace("  ", " ") + " |")
    return "\n".join(lines) + "\n"


def methods(node: ast.ClassDef) -> list[Function]:
    """The public methods and properties that are documented."""
    return [
        item
        for item in node.body
        if isinstance(item, Function) and not item.name.startswith("_") and ast.get_docstring(item)
    ]


def class_section(module: str, node: ast.ClassDef, *, own: str | None = None) -> str:
    """A class with its fields and methods."""
    name = f"{module}.{node.name}"
    made = next((item for item in node.body if isinstance(item, Function) and item.name == "__init__"), None)
    head = f"## `{name}`\n\n"
    bases = [
        base for base in map(ast.unparse, node.bases) if not base.startswith("_") and base not in _HIDDEN
    ]
    if bases:
        head += f"Derives from {', '.join(f'`{base}`' for base in bases)}.\n\n"
    if made is not None:
        shown = signature(made, drop_first=True).removesuffix(" -> None")
        head += f"```text\n{name}{shown}\n```\n\n"
    parts = [head + doc(node), field_table(node) if own is None else own]
    for item in methods(node):
        flags = {ast.unparse(decorator) for decorator in item.decorator_list}
        if flags & {"property", "cached_property"}:
            kind = "" if item.returns is None else f": `{ast.unparse(item.returns)}`"
            parts.append(f"### `{node.name}.{item.name}`\n\nProperty{kind}.\n\n" + doc(item))
        else:
            prefix = "async " if isinstance(item, ast.AsyncFunctionDef) else ""
            shown = f"{prefix}{item.name}{signature(item, drop_first=True)}"
            parts.append(f"### `{node.name}.{item.name}`\n\n```text\n{shown}\n```\n\n" + doc(item))
    return "\n".join(part for part in parts if part)


def function_section(module: str, node: Function) -> str:
    """A function."""
    shown = f"{node.name}{signature(node, drop_first=False)}"
    return f"## `{module}.{node.name}`\n\n```text\n{shown}\n```\n\n{doc(node)}"


def sections(module: str, found: dict[str, ast.stmt], names: list[str]) -> str:
    """The sections of some definitions of a module."""
    parts = []
    for name in names:
        node = found[name]
        if isinstance(node, ast.ClassDef):
            parts.append(class_section(module, node))
        elif isinstance(node, Function):
            parts.append(function_section(module, node))
    return "\n".join(parts)


def public(found: dict[str, ast.stmt]) -> list[str]:
    """The names that stand in the module and are public, in the order of the source."""
    return [name for name in found if name and not name.startswith("_")]


def engine_page() -> str:
    """The engine and the sources that are not HTTP."""
    engine, cache, sources = parse("engine.py"), parse("cache.py"), parse("sources.py")
    return (
        "# The engine and its sources\n\n"
        + sections("penstock", engine, ["Engine", "default_engine"])
        + "\n"
        + sections("penstock.cache", cache, ["Cache"])
        + "\n"
        + sections("penstock", cache, ["CacheStats", "StoredResponse"])
        + "\n"
        + sections("penstock", sources, ["open_file", "open_fd", "open_process"])
    )


def stream_page() -> str:
    """Frames, streams, responses."""
    streams, others = parse("stream.py"), parse("_native.pyi") | parse("forwarding.py")
    return (
        f"# Streams, responses, frames\n\n{module_doc(streams[''])}\n"
        + sections("penstock", streams, ["FrameStream", "Response"])
        + "\n"
        + sections("penstock", others, ["Frame", "end_to_end"])
    )


def stats_page() -> str:
    """What is counted."""
    found = parse("stats.py")
    names = [
        *("DiskStats", "EngineStats", "Histogram", "InspectionStats", "OriginStats", "PoolStats"),
        *("RelayStats", "SlabClass", "Timings"),
    ]
    return f"# Counters and timings\n\n{module_doc(found[''])}\n" + sections("penstock", found, names)


def origins_page() -> str:
    """Several origins."""
    found = parse("origins.py")
    return f"# Several origins\n\n{module_doc(found[''])}\n" + sections(
        "penstock", found, ["Origins", "OriginsStats", "OriginState"]
    )


def hub_page() -> str:
    """Topics and their routes."""
    found = parse("hub.py")
    hub, base = parse("web/hub.py")["Hub"], found["BaseHub"]
    assert isinstance(hub, ast.ClassDef)  # noqa: S101 (says it to mypy)
    assert isinstance(base, ast.ClassDef)  # noqa: S101
    # One class to its users.
    whole = ast.ClassDef("Hub", [], [], [*hub.body, *base.body[1:]], [])
    return (
        f"# Topics\n\n{module_doc(found[''])}\n"
        + sections("penstock", {**found, "Hub": whole}, ["Hub", "HubStats", "TopicStats", "HubCounts"])
        + "\n"
        + sections("penstock", parse("log/interface.py"), ["LogStats"])
        + "\n"
        + sections("penstock.web", parse("web/topics.py"), ["TopicsRoute"])
    )


def tokens_page() -> str:
    """What the engine verifies by itself."""
    package = parse("tokens/__init__.py")
    return (
        f"# penstock.tokens\n\n{module_doc(package[''])}\n"
        + sections("tokens", parse("tokens/signed.py"), ["SignedUrl"])
        + sections("tokens", parse("tokens/jwt.py"), ["Jwt", "Key"])
        + sections("tokens", parse("tokens/jwks.py"), ["Jwks"])
    )


def framing_page() -> str:
    """The framings."""
    found, events = parse("framing.py"), parse("events.py")
    return (
        f"# penstock.framing\n\n{module_doc(found[''])}\n"
        + sections("framing", found, public(found))
        + "\n## `framing.Framing`\n\nAny of these: what `framing=` takes.\n"
        + "\n"
        + sections("penstock", events, ["encode_event"])
    )


def config_page() -> str:
    """The settings."""
    package = parse("config/__init__.py")
    found: dict[str, ast.stmt] = {}
    for path in sorted((PACKAGE / "config").glob("*.py")):
        found |= parse(f"config/{path.name}")
    names = [*penstock.config.__all__]
    return f"# penstock.config\n\n{module_doc(package[''])}\n" + sections("config", found, names)


# The tables of a file, each with its class. A table that is described elsewhere on the page is not described again.
TABLES: Final = {
    "[pool]": "Pool",
    "[flow]": "Flow",
    "[reads]": "Reads",
    "[cache]": "Cache",
    "[caching]": "Caching",
    "[timeouts]": "Timeouts",
    "[limits]": "OriginLimits",
    "[origin_tls]": "OriginTls",
    "[origin_http2]": "OriginHttp2",
    "[forwarding]": "Forwarding",
    "[forwarding.grpc_web]": "GrpcWeb",
    "[edge]": "Edge",
    "[tls]": "TLS",
    "[tls.hsts]": "HSTS",
    "[http2]": "Http2",
    "[status]": "Status",
    "[tracing]": "Tracing",
    "[access_log]": "AccessLog",
    "[workers]": "Workers",
    "[origins.NAME]": "ServerOrigin",
    "[[origins.NAME.urls]]": "Origin",
    "[origins.NAME.health]": "Health",
    "[origins.NAME.check]": "Check",
    "[origins.NAME.retries]": "Retries",
    "[origins.NAME.certificate]": "ClientCertificate",
    "[[routes]]": "ServerRoute",
    "[routes.limits]": "RouteLimits",
    "[routes.events]": "EventRelay",
    "[routes.drain]": "Drain",
    "[[sites]]": "ServerSite",
    '[gates.NAME] with kind = "signed-url"': "SignedUrl",
    '[gates.NAME] with kind = "jwt"': "Jwt",
    "[[gates.NAME.keys]]": "Key",
    "[gates.NAME.jwks]": "Jwks",
    "[gates.NAME.access]": "Access",
    "[gates.NAME.access.tenant_limits]": "TenantLimits",
}


def configuration_page() -> str:
    """The configuration file."""
    found: dict[str, ast.stmt] = {}
    for folder in ("config", "tokens"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            found |= parse(f"{folder}/{path.name}")
    options = {".".join(SETTINGS[option.name]): option for option in serve.params if option.name in SETTINGS}
    kinds = " and ".join(f"`{kind}`" for kind in KINDS)
    text = (
        "# The configuration file\n\nWhat `penstock serve --config FILE` reads; the [guide](../guide/configuration.md) "
        "explains it. None is written `false`. A tuple is an array, a mapping is a table. Every text can be "
        '`{ file = "..." }` or `{ env = "..." }`. The last column has the option and the variable of the environment '
        f"that say the same. Gates are of the kinds {kinds}.\n\n## Keys outside of tables\n\n"
    )
    short = (
        "| `memory` | `Size` |  | Short for `pool.memory`. |  |\n"
        "| `origin` | `str` or an array |  | Short for `origins.default.urls`. |  |\n"
    )
    parts = [text, _settings_table(found["Server"], "", options), short]
    for table, name in TABLES.items():
        node = found[name]
        assert isinstance(node, ast.ClassDef)  # noqa: S101 (says it to mypy)
        before = re.sub(r"^\W+|\W+$", "", table.partition(" ")[0]).replace("NAME", "default") + "."
        parts.append(f"\n## `{table}`\n\n{doc(node)}\n{_settings_table(node, before, options)}")
    return "".join(parts)


def _settings_table(node: ast.stmt, before: str, options: dict[str, click.Parameter]) -> str:
    """The keys of a table. The tables of the server itself have sections of their own."""
    assert isinstance(node, ast.ClassDef)  # noqa: S101
    lines = ["| key | type | default | meaning | option |", "| --- | --- | --- | --- | --- |"]
    for name, kind, default, text in fields(node):
        is_table = f"[{name}]" in TABLES or f"[[{name}]]" in TABLES or f"[{name}.NAME]" in TABLES
        hidden = kind.startswith(("ClassVar", "KW_ONLY")) or f"{node.name}.{name}" in ELSEWHERE
        if hidden or (not before and is_table) or (not before and name == "gates"):
            continue
        option = options.get(before + name)
        said = "" if option is None else f"`{_flag(option)}`, `{variable_of(option.name or '')}`"
        value = "" if default is None or "field(" in default else f"`{default}`"
        shown = f"`{kind}`".replace("|", "\\|")
        lines.append(f"| `{name}` | {shown} | {value} | {text} | {said} |")
    return "\n".join(lines) + "\n"


def _flag(option: click.Parameter) -> str:
    return "MODULE:APP" if isinstance(option, click.Argument) else option.opts[-1]


def web_page() -> str:
    """The gateway."""
    gateway, failures, package = (parse(f"web/{name}.py") for name in ("gateway", "failures", "__init__"))
    constants = (
        "## `penstock.web.TENANT`\n\nWhere `relay` leaves its `tenant` on the request, for access logs and "
        "middlewares.\n\n## `penstock.web.FAILURE`\n\nWhere `relay` leaves the `Failure` of a request.\n"
    )
    return (
        f"# penstock.web\n\n{module_doc(package[''])}\n"
        + sections("penstock.web", parse("web/runner.py"), ["run_app"])
        + sections("penstock.web", parse("web/site.py"), ["Site"])
        + sections("penstock.web", parse("config/tls.py"), ["TLS"])
        + sections("penstock.web", gateway, ["Gateway"])
        + sections("penstock.web", parse("web/native.py"), ["NativeRoute"])
        + sections("penstock.web", parse("serving/relay_spec.py"), ["RelaySpec", "HeaderEdits"])
        + sections(
            "penstock.web",
            parse("web/decisions.py"),
            ["Allow", "Deny", "NativeRequest", "Decisions", "Revoked"],
        )
        + sections("penstock.web", parse("stats.py"), ["DecisionStats", "TenantStats"])
        + sections("penstock.web", parse("web/handover.py"), ["RelayEnd"])
        + sections("penstock.web", parse("web/inspection.py"), ["Inspected"])
        + f"\n{constants}\n"
        + sections("penstock.web", failures, ["Failure", "settle_failures"])
    )


def errors_page() -> str:
    """The classes, and the table of codes with the status that the gateway answers."""
    found = parse("exceptions.py")
    lines = [
        "| code | name | class | about | retryable | status | meaning |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in penstock.error_codes():
        error = penstock.exceptions.make_error(row.name, "")
        retryable = "yes" if row.retryable else "no"
        # A client that has disconnected receives no status.
        status = "-" if row.name in {"CLIENT_GONE", "CLIENT_STALLED", "WRITE_TIMEOUT"} else str(row.status)
        cells = (f"0x{row.number:03X}", f"`{row.name}`", f"`{type(error).__name__}`", row.source)
        lines.append("| " + " | ".join((*cells, retryable, status, row.meaning)) + " |")
    table = "\n".join(lines)
    explained = (
        "## The codes\n\n`about` says whose behaviour the failure describes. `retryable` says whether the "
        "same request may succeed when it is sent again unchanged. `status` is what a "
        f"client gets when the failure comes before the head of its response.\n\n{table}\n"
    )
    classes = sections("penstock", found, [name for name in public(found) if name in found_errors()])
    return f"# Errors\n\n{module_doc(found[''])}\n{explained}\n{classes}"


def found_errors() -> set[str]:
    """The public names of the module of errors."""
    return set(penstock.exceptions.__all__)


def command_page() -> str:
    """The command's options."""
    parts = ["# The `penstock` command\n"]
    for name, each in (("penstock", command), *_commands(command, "penstock ")):
        text = inspect.cleandoc(each.help or "")
        # After a backspace click keeps lines as they are.
        text = re.sub(r"\x08\n((?:  .*\n?)+)", r"```text\n\1```\n", text).replace("\x08\n", "")
        lines = [f"## `{name}`\n\n{text}\n"]
        if any(isinstance(option, click.Option) for option in each.params):
            lines += ["| option | default | meaning |", "|---|---|---|"]
        for option in each.params:
            if not isinstance(option, click.Option):
                continue
            flags = " / ".join((*option.opts, *option.secondary_opts))
            value = "" if option.is_flag or option.metavar is None else f" {option.metavar}"
            default = _default(option)
            meaning = re.sub(r"\s*\[default: .*\]", "", option.help or "")
            lines.append(f"| `{flags}{value}` | {default} | {meaning} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _commands(group: click.Group, before: str) -> Iterator[tuple[str, click.Command]]:
    """The commands of a group, each group before its own; `before` stands before their names."""
    for name, each in group.commands.items():
        yield before + name, each
        if isinstance(each, click.Group):
            yield from _commands(each, f"{before}{name} ")


def _default(option: click.Option) -> str:
    stated = re.search(r"\[default: (.*)\]", option.help or "")
    if stated:
        return stated[1]
    if option.show_default is not True:
        return ""
    if option.secondary_opts:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    return f"`{option.default:g}`" if isinstance(option.default, float) else f"`{option.default}`"


def metrics_page() -> str:
    """The pages about an engine."""
    found = parse("metrics.py")
    return f"# penstock.metrics\n\n{module_doc(found[''])}\n" + sections(
        "penstock.metrics", found, public(found)
    )


def workers_page() -> str:
    """What an application knows of the process that it runs in."""
    found = parse("workers/__init__.py")
    return f"# penstock.workers\n\n{module_doc(found[''])}\n" + sections(
        "penstock.workers", found, ["current", "Worker"]
    )


def testing_page() -> str:
    """What tests of users can use."""
    found = parse("testing.py")
    names = ["ScriptedOrigin", "Peer", "RecordedRequest", "respond"]
    script = (
        "## `penstock.testing.Script`\n\nA coroutine function that is called with a `Peer` for each connection, which is "
        "closed when it returns.\n"
    )
    return (
        f"# penstock.testing\n\n{module_doc(found[''])}\n"
        + sections("penstock.testing", found, names)
        + f"\n{script}"
    )


def index_page() -> str:
    """The list of pages."""
    return """# Reference

Written from the docstrings by `docs/generate_reference.py`.

- [The engine and its sources](engine.md): `Engine`, `default_engine`, `open_file`, `open_fd`, `open_process`
- [Streams, responses, frames](streams.md): `FrameStream`, `Response`, `Frame`, `end_to_end`
- [Several origins](origins.md): `Origins`
- [Topics](hub.md): `Hub`
- [Tokens](tokens.md): `SignedUrl`, `Jwt`, `Jwks`
- [Framings](framing.md): `Raw`, `Fixed`, `LengthPrefixed`, `Lines`, `Events`; `encode_event`
- [Settings and their defaults](config.md): pool, flow, reads, timeouts, limits, TLS, forwarding
- [Counters and timings](stats.md): `Engine.stats()`, `Response.timings`
- [Health and metrics](metrics.md): `penstock.metrics`
- [Errors and their codes](errors.md)
- [The gateway](web.md): `penstock.web`
- [Worker processes](workers.md): `penstock.workers`
- [The command](command.md): `penstock serve`, `penstock check`, `penstock doctor`, `penstock demo`
- [The configuration file](configuration.md): tables, keys, options, variables
- [For tests](testing.md): `penstock.testing`

```{toctree}
:hidden:
:glob:

*
```
"""


PAGES: Final[dict[str, Callable[[], str]]] = {
    "README.md": index_page,
    "command.md": command_page,
    "config.md": config_page,
    "configuration.md": configuration_page,
    "engine.md": engine_page,
    "errors.md": errors_page,
    "framing.md": framing_page,
    "origins.md": origins_page,
    "hub.md": hub_page,
    "metrics.md": metrics_page,
    "tokens.md": tokens_page,
    "stats.md": stats_page,
    "streams.md": stream_page,
    "testing.md": testing_page,
    "web.md": web_page,
    "workers.md": workers_page,
}


def main() -> int:
    """Write or check all pages; the exit status."""
    check = sys.argv[1:] == ["--check"]
    stale = []
    for name, make in PAGES.items():
        path = REFERENCE / name
        text = NOTE + "\n" + re.sub(r"\n{3,}", "\n\n", make()).strip() + "\n"
        if check and (not path.exists() or path.read_text() != text):
            stale.append(name)
        elif not check:
            path.write_text(text)
    if stale:
        sys.stderr.write(f"run docs/generate_reference.py: {', '.join(stale)} would change\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
