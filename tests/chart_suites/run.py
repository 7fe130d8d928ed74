"""Checks the Helm chart with helm and with the schemas of Kubernetes: `make test-chart`.

helm lints the chart, and renders it with each file of values in its `ci` folder, for an old and a new Kubernetes. What
is rendered must be valid by the schemas (kubernetes-validate, which has them) and be as in `packaging/helm/golden`,
which `--record` writes. Values that make no sense must be refused.

python run.py [--record]        helm is found in PATH, or by HELM=
"""

import difflib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import yaml

HELM_DIRECTORY = Path(__file__).parents[2] / "packaging" / "helm"
CHART, GOLDEN = HELM_DIRECTORY / "penstock", HELM_DIRECTORY / "golden"
# The oldest has no `sleep` in preStop. The schemas are of the newest that kubernetes-validate knows.
VERSIONS = ("1.28.0", "1.36.0")
# Resources of the Prometheus operator, which have no schema there.
FOREIGN = {"ServiceMonitor", "PrometheusRule"}
ORIGIN = ("--set", "origins[0]=http://origin")
REFUSED = {
    "nothing is served": (),
    "two things are served": (*ORIGIN, "--set", "application.name=media:app"),
    "a redirect without TLS": (*ORIGIN, "--set", "tls.redirectPort=80"),
    "a disk without a cache": (*ORIGIN, "--set", "cache.disk.size=1GB"),
    "a value that there is not": (*ORIGIN, "--set", "replica=3"),
    "a size that cannot be": (*ORIGIN, "--set", "memory=much"),
    "an origin that is no URL": ("--set", "origins[0]=origin:8080"),
    "an argument that is no option": (*ORIGIN, "--set", "args[0]=serve"),
    "a drain that is no number": (*ORIGIN, "--set-string", "drain=30s"),
}


def run(helm: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)


def rendered(helm: str, values: Path, version: str) -> str:
    ended = run(
        helm,
        "template",
        "media",
        str(CHART),
        "--namespace",
        "media",
        "--kube-version",
        version,
        "-f",
        str(values),
    )
    if ended.returncode:
        sys.exit(f"{values.name}: {ended.stderr}")
    return ended.stdout


def invalid(text: str, version: str) -> list[str]:
    """What the schemas of Kubernetes `version` find wrong."""
    wrong = []
    for resource in yaml.safe_load_all(text):
        if resource is None or resource["kind"] in FOREIGN:
            continue
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            wrong.append(f"{resource['kind']}: {error.message} at {'.'.join(map(str, error.path))}")
    return wrong


def main(record: bool) -> int:
    helm = os.environ.get("HELM") or shutil.which("helm")
    if helm is None:
        sys.exit("run.py: helm is not found: go install helm.sh/helm/v3/cmd/helm@v3.18.6, or HELM=path")
    failures = []
    for values in sorted((CHART / "ci").glob("*.yaml")):
        ended = run(helm, "lint", str(CHART), "--strict", "--kube-version", VERSIONS[-1], "-f", str(values))
        if ended.returncode:
            failures.append(f"lint with {values.name}: {ended.stdout}")
        for version in VERSIONS:
            text = rendered(helm, values, version)
            failures += [f"{values.stem}, {version}: {wrong}" for wrong in invalid(text, version[:-2])]
            golden = GOLDEN / f"{values.stem}-{version[:-2]}.yaml"
            if record:
                golden.write_text(text)
            elif text != (there := golden.read_text() if golden.exists() else ""):
                lines = difflib.unified_diff(
                    there.splitlines(), text.splitlines(), golden.name, "now", lineterm=""
                )
                failures.append("\n".join(lines))
    for what, arguments in REFUSED.items():
        if (
            run(helm, "template", "media", str(CHART), "--kube-version", VERSIONS[-1], *arguments).returncode
            == 0
        ):
            failures.append(f"{what}: is not refused")
    for failure in failures:
        print(failure)
    print(f"{len(list(GOLDEN.glob('*.yaml')))} renderings, {len(REFUSED)} refusals: {len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main("--record" in sys.argv))
