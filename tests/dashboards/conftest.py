"""The modules that make the dashboards, and the browser that draws them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "dashboards"))
