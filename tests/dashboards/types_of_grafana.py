"""Checks the dashboards by the types of Grafana itself, the package @grafana/schema: `make dashboard-types`.

Each panel becomes a constant of TypeScript with the type of its kind, so that an unknown field, a missing one and an
unknown value of an enumeration are errors.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PAGES = sorted((HERE.parents[1] / "dashboards" / "grafana").glob("*.json"))

_COMPOSABLE = "@grafana/schema/dist/esm/raw/composable"
_TYPES = f"""\
import type {{ Dashboard, Panel, RowPanel }} from '@grafana/schema';
import type {{ FieldConfig as GraphField, Options as GraphOptions }} from
  '{_COMPOSABLE}/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';
import type {{ Options as StatOptions }} from '{_COMPOSABLE}/stat/panelcfg/x/StatPanelCfg_types.gen';
import type {{ Options as BarOptions }} from '{_COMPOSABLE}/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen';

// JSON has the values of enumerations, and not their names.
type Plain<T> = T extends string ? `${{T}}` : T extends Array<infer U> ? Array<Plain<U>>
  : T extends object ? {{ [K in keyof T]: Plain<T[K]> }} : T;
type Defaults = NonNullable<Panel['fieldConfig']>['defaults'];
type Kind<Type, Options, Custom> = Plain<Omit<Panel, 'type' | 'options' | 'fieldConfig'> & {{
  type: Type;
  options: Partial<Options>;
  fieldConfig: Omit<NonNullable<Panel['fieldConfig']>, 'defaults'> & {{
    defaults: Omit<Defaults, 'custom'> & {{ custom?: Custom }};
  }};
}}>;
type timeseries = Kind<'timeseries', GraphOptions, GraphField>;
type stat = Kind<'stat', StatOptions, never>;
type bargauge = Kind<'bargauge', BarOptions, never>;
type row = Plain<RowPanel>;
type page = Plain<Dashboard>;
"""


def program() -> str:
    """All pages, as constants."""
    lines = [_TYPES]
    for path in PAGES:
        page = json.loads(path.read_text())
        name = path.stem
        lines += [
            f"export const {name}_{panel['id']}: {panel['type']} = {json.dumps(panel, indent=1)};"
            for panel in page["panels"]
        ]
        page["panels"] = []
        lines.append(f"export const {name}: page = {json.dumps(page, indent=1)};")
    return "\n".join(lines)


def main() -> int:
    """The exit status: that of the compiler."""
    with tempfile.TemporaryDirectory(dir=HERE) as directory:
        source = Path(directory) / "pages.ts"
        source.write_text(program())
        compiler = [str(HERE / "node_modules" / ".bin" / "tsc"), "--noEmit", "--strict", "--skipLibCheck"]
        options = ["--module", "esnext", "--moduleResolution", "bundler", "--target", "esnext"]
        return subprocess.run([*compiler, *options, str(source)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
