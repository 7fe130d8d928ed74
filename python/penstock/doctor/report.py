"""What all checks have found, as text for people or JSON for programs, and as an exit status."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from .finding import FAILURE, OK, UNKNOWN, WARNING, Finding

__all__ = ["as_json", "as_text", "status"]

_MARKS: Final = {OK: "ok     ", UNKNOWN: "unknown", WARNING: "WARNING", FAILURE: "FAILURE"}


def status(findings: Sequence[Finding]) -> int:
    """0; 1 with a warning; 2 if something will fail."""
    states = {finding.state for finding in findings}
    return 2 if FAILURE in states else int(WARNING in states)


def as_text(findings: Sequence[Finding]) -> str:
    """A line for each, and what to do about a warning or a failure."""
    lines = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.state]}  {finding.check}: {finding.seen}")
        if finding.state in {WARNING, FAILURE}:
            for word, text in (("wanted", finding.wanted), ("why", finding.why), ("how", finding.how)):
                if text:
                    lines.append(f"{'':9}{word + ':':8}{text}")
    counts = {state: sum(finding.state == state for finding in findings) for state in (FAILURE, WARNING)}
    lines.append(f"\n{counts[FAILURE]} failures, {counts[WARNING]} warnings, {len(findings)} checks")
    return "\n".join(lines)


def as_json(findings: Sequence[Finding]) -> str:
    """An object with the list of all."""
    return json.dumps(
        {"status": status(findings), "checks": [asdict(finding) for finding in findings]}, indent=2
    )
