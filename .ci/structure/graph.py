"""Circles and upward arrows of a graph of files.

Arrows are `{file: {file it imports: names}}`. Paths are relative to the root of the checkout.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

Arrows = Mapping[str, Mapping[str, set[str]]]


class Upward(NamedTuple):
    """An import from a layer into one that does not stand below it."""

    source: str
    target: str
    names: tuple[str, ...]


def circles(
    arrows: Arrows, children: Callable[[str, str], bool] = lambda _parent, _child: False
) -> list[list[str]]:
    """The sets of files that import one another, each sorted.

    A module and its own children do not make a circle: if a file of a set is the parent of all the others, their arrows to it do not count.
    """
    return sorted(sorted(circle) for circle in _circles(set(arrows), arrows, children))


def _circles(files: set[str], arrows: Arrows, children: Callable[[str, str], bool]) -> list[set[str]]:
    found: list[set[str]] = []
    for together in _components(files, arrows):
        if len(together) == 1:
            continue
        parents = [
            file for file in together if all(file == other or children(file, other) for other in together)
        ]
        if not parents:
            found.append(together)
            continue
        parent = parents[0]
        inner = {file: {to: names for to, names in arrows[file].items() if to != parent} for file in together}
        found += _circles(together, inner, children)
    return found


def _components(files: set[str], arrows: Arrows) -> Iterable[set[str]]:
    """Strongly connected components, by Tarjan's algorithm without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    for start in sorted(files):
        if start in index:
            continue
        work = [(start, iter(sorted(to for to in arrows.get(start, ()) if to in files)))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            file, targets = work[-1]
            for to in targets:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on_stack.add(to)
                    work.append((to, iter(sorted(next_ for next_ in arrows.get(to, ()) if next_ in files))))
                    break
                if to in on_stack:
                    low[file] = min(low[file], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[file])
                if low[file] == index[file]:
                    component = set()
                    while file not in component:
                        component.add(stack.pop())
                    on_stack -= component
                    yield component


def upward(
    arrows: Arrows, layer: Callable[[str], tuple[str, str] | None], layers: Mapping[str, list[list[str]]]
) -> list[Upward]:
    """Imports that do not point down.

    `layer` says to which group (a crate, a package) and to which of its layers' members a file belongs; `layers` has the rows of
    each group, the lowest first. Members of one row do not import each other.

    Raises:
        SystemExit: A member is in no row.
    """
    heights = {
        group: {name: row for row, names in enumerate(rows) for name in names}
        for group, rows in layers.items()
    }
    found = []
    for source in sorted(arrows):
        for target in sorted(arrows[source]):
            above, below = layer(source), layer(target)
            if (
                above is None
                or below is None
                or above == below
                or above[0] != below[0]
                or above[0] not in heights
            ):
                continue
            for group, name in (above, below):
                if name not in heights[group]:
                    raise SystemExit(
                        f"structure: `{name}` of {group} is in none of the layers of structure.toml"
                    )
            if heights[above[0]][above[1]] <= heights[below[0]][below[1]]:
                found.append(Upward(source, target, tuple(sorted(arrows[source][target]))))
    return found
