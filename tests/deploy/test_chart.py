"""The Helm chart as it was rendered last, which takes no helm: `make test-chart` renders it anew, and compares."""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli import main, serve
from penstock.cli_config import Configuration
from penstock.cli_serving import planned
from support.documents import ROOT
from support.programs import require_package

HELM = ROOT / "packaging" / "helm"
CHART = HELM / "penstock"
GOLDEN = sorted((HELM / "golden").glob("*.yaml"))


def read(path: Path) -> list[dict[str, Any]]:
    return [each for each in require_package("yaml").safe_load_all(path.read_text()) if each]


def one(resources: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in resources if each["kind"] == kind]
    return found


def container(path: Path) -> dict[str, Any]:
    (found,) = one(read(path), "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_there_is_a_rendering_of_all_values_for_two_versions() -> None:
    values = {path.stem for path in (CHART / "ci").glob("*.yaml")}
    assert {path.stem for path in GOLDEN} == {
        f"{name}-{version}" for name in values for version in ("1.28", "1.36")
    }


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_penstock_takes_the_arguments(path: Path, tmp_path: Path) -> None:
    arguments = container(path)["args"]
    known = {name for option in serve.params for name in option.opts}
    given = {argument.partition("=")[0] for argument in arguments if argument.startswith("--")}
    assert given <= known
    # Files of the pod are not here.
    here = [re.sub("/etc/penstock(-tls)?/", f"{tmp_path}/", argument) for argument in arguments]
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch()
    for each in read(path):
        for name, text in each.get("data", {}).items():
            (tmp_path / name).write_text(text)
    with serve.make_context("serve", here) as ctx:
        planned(Configuration.of_context(ctx))
    file = tmp_path / "penstock.toml"
    if file.exists():
        done = CliRunner().invoke(main, ["check", str(file)])
        assert (done.exit_code, done.output.splitlines()[0]) == (0, f"{file}: no faults")


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_pod_has_the_time_to_drain(path: Path) -> None:
    spec = one(read(path), "Deployment")["spec"]["template"]["spec"]
    drain = next(
        re.fullmatch(r"--drain=(\d+)", text) for text in container(path)["args"] if "--drain" in text
    )
    assert drain
    stop = container(path).get("lifecycle", {}).get("preStop", {})
    before = stop.get("sleep", {}).get("seconds") or int(stop.get("exec", {}).get("command", ["0"])[-1])
    # And 5 s for handlers that are cut off.
    assert spec["terminationGracePeriodSeconds"] > before + int(drain[1]) + 5


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_pod_has_no_rights(path: Path) -> None:
    """The rules of the Pod Security Standard `restricted`."""
    spec = one(read(path), "Deployment")["spec"]["template"]["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    rights = container(path)["securityContext"]
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"] == {"drop": ["ALL"]}
    kinds = {kind for volume in spec["volumes"] for kind in volume if kind != "name"}
    assert kinds <= {"emptyDir", "configMap", "secret", "ephemeral"}


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_ports_and_mounts_have_their_other_ends(path: Path) -> None:
    resources = read(path)
    spec = one(resources, "Deployment")["spec"]["template"]["spec"]
    ports = {port["name"] for port in container(path)["ports"]}
    wanted = {
        port["targetPort"]
        for each in resources
        if each["kind"] == "Service"
        for port in each["spec"]["ports"]
    }
    assert wanted <= ports
    assert {mount["name"] for mount in container(path)["volumeMounts"]} == {
        volume["name"] for volume in spec["volumes"]
    }
    maps = {each["metadata"]["name"] for each in resources if each["kind"] == "ConfigMap"}
    assert maps == {volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume}


def test_the_chart_scales_by_a_metric_that_there_is() -> None:
    (values,) = read(CHART / "values.yaml")
    with contextlib.closing(penstock.Engine(memory="1MiB")) as engine:
        assert re.search(
            rf"^# TYPE {values['autoscaling']['metric']} gauge", penstock.metrics.text(engine), re.MULTILINE
        )


def test_the_schema_has_each_value_and_the_chart_the_version() -> None:
    (values,) = read(CHART / "values.yaml")
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(given: dict[str, Any], rules: dict[str, Any], at: str) -> None:
        if rules.get("additionalProperties") is not False:
            return
        assert set(given) == set(rules["properties"]) - {"global"}, at
        for name, value in given.items():
            if isinstance(value, dict):
                compare(value, rules["properties"][name], f"{at}.{name}")

    compare(values, schema, "values")
    (chart,) = read(CHART / "Chart.yaml")
    assert chart["appVersion"] == penstock.__version__
