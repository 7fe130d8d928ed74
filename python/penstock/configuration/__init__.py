"""Configuration files: TOML whose tables and keys are the classes and fields of `penstock.config`.

`document` has the text with its positions and what options say besides, `reader` makes `config.Server` of it by the
annotations of the fields, and `gates` makes what verifies tokens. Nothing here declares a default.
"""

from .document import Document, Node, Place, shown_path
from .faults import Fault, Faults, FaultyConfigurationError, suggestion
from .gates import ServerGate
from .reader import read_server, read_table

__all__ = [
    "Document",
    "Fault",
    "Faults",
    "FaultyConfigurationError",
    "Node",
    "Place",
    "ServerGate",
    "read_server",
    "read_table",
    "shown_path",
    "suggestion",
]
