"""The cases of tests/data/request_smuggling.json, which the engine's tests read through its parser."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from penstock.exceptions import make_error
from penstock.web.problem import status_for

CASES: Final[list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data" / "request_smuggling.json").read_text()
)["cases"]

REFUSALS: Final = sorted(
    {(case["then"]["code"], case["then"]["status"]) for case in CASES if isinstance(case["then"], dict)}
)


def test_each_case_has_a_name_of_its_own() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names)) > 700


@pytest.mark.parametrize(("code", "status"), REFUSALS)
def test_a_refusal_is_answered_with_the_status_of_its_cases(code: str, status: int) -> None:
    assert status_for(make_error(code, "refused")) == status


def test_every_refusal_of_a_request_has_a_case() -> None:
    assert {code for code, _ in REFUSALS} == {
        "BAD_HOST",
        "BAD_REQUEST_BODY",
        "BAD_REQUEST_FRAMING",
        "BAD_REQUEST_HEAD",
        "EXPECTATION_FAILED",
        "REQUEST_HEAD_TOO_LARGE",
        "REQUEST_TRUNCATED",
        "TARGET_TOO_LONG",
        "UNSUPPORTED_CODING",
        "UNSUPPORTED_METHOD",
        "UNSUPPORTED_VERSION",
    }
