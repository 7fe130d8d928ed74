"""asyncio without TLS, for a process whose TLS is the engine's alone.

asyncio imports `ssl` where Python has it, and does without where Python was built without OpenSSL, which takes 4 MB of
memory. Here Python seems to have no `ssl` while asyncio is imported.
"""

import sys

__all__ = ["import_asyncio"]


def import_asyncio() -> None:
    """Import asyncio, with `ssl` left out; nothing if one of them was imported before.

    Its transports then refuse `ssl=`, in all of the process. Others may import `ssl`, now and later.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    # An import of it fails (the reference of Python's language, section 5.3.1).
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        import asyncio  # noqa: F401, PLC0415 (to have it imported)
    finally:
        del sys.modules["ssl"]
