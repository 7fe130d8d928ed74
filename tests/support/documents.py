"""The documents of the project, and the Python in them."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
RUN = [path for path in DOCUMENTS if not {"reference", "decisions"} & set(path.parts)]

BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^>]*?) -->\n+)?^```python\n(?P<code>.*?)^```\n"
    r"(?:\n*```text\n(?P<prints>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


CONFIGURATION = ROOT / "docs" / "guide" / "configuration.md"


def tables(path: Path = CONFIGURATION) -> list[str]:
    """The configuration files in a document."""
    return re.findall(r"^```toml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    line: int
    mark: str
    code: str
    prints: str | None

    def compile(self, path: Path, origin: str = "http://origin") -> object:
        code = re.sub(r"https?://origin(?:\.example)?\b", origin, self.code)
        padded = "\n" * (self.line - 1) + code
        return compile(padded, name(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def blocks(path: Path) -> list[Block]:
    text = path.read_text()
    found = [
        Block(
            text.count("\n", 0, match.start("code")) + 1, match["mark"] or "", match["code"], match["prints"]
        )
        for match in BLOCK.finditer(text)
    ]
    assert len(found) == text.count("```python\n"), f"{name(path)}: a block is not closed, or is indented"
    return found
