import pickle

import pytest

import penstock
from penstock import exceptions

BUILTINS = {
    "timeout": TimeoutError,
    "connection": ConnectionError,
    "protocol": ValueError,
    "frame": ValueError,
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
