import pickle

import pytest

import penstock
from penstock import exceptions
from penstock.web.problem import problem_response, status_for

BUILTINS = {
    "timeout": TimeoutError,
    "connection": ConnectionError,
    "protocol": ValueError,
    "frame": ValueError,
    "status": Exception,
    "memory": MemoryError,
    "state": RuntimeError,
    "value": ValueError,
    "system": OSError,
}


@pytest.mark.parametrize("row", penstock.error_codes(), ids=lambda row: row.name)
def test_every_code_has_a_class_of_its_kind(row: penstock.ErrorCode) -> None:
    error = exceptions.make_error(row.name, "something happened", "http://origin:1")
    assert isinstance(error, penstock.PenstockError)
    assert isinstance(error, BUILTINS[row.kind])
    assert (error.code, error.name, error.source, error.retryable) == (
        row.number,
        row.name,
        row.source,
        row.retryable,
    )
    assert str(error) == f"0x{row.number:03X} {row.name}: something happened (origin http://origin:1)"
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.code) == (type(error), str(error), error.code)


def test_codes_are_unique_ascending_and_explained() -> None:
    numbers = [row.number for row in penstock.error_codes()]
    assert numbers == sorted(set(numbers))
    assert all(row.meaning.endswith(".") for row in penstock.error_codes())


def test_io_timeout_is_0x102() -> None:
    assert next(row.number for row in penstock.error_codes() if row.name == "IO_TIMEOUT") == 0x102


@pytest.mark.parametrize(
    "row", [row for row in penstock.error_codes() if row.source == "client"], ids=lambda row: row.name
)
def test_no_fault_of_the_client_is_answered_as_one_of_the_gateway_or_the_origin(
    row: penstock.ErrorCode,
) -> None:
    status = status_for(exceptions.make_error(row.name, "something happened"))
    # 501 and 505 say that this request is not served here, also if another client sends it again.
    assert status in (400, 401, 403, 404, 408, 413, 414, 417, 421, 429, 431, 501, 505)


@pytest.mark.parametrize("row", penstock.error_codes(), ids=lambda row: row.name)
def test_a_retryable_error_says_when_to_retry(row: penstock.ErrorCode) -> None:
    response = problem_response(exceptions.make_error(row.name, "something happened"))
    assert ("Retry-After" in response.headers) == (response.status in (429, 503))
