"""Networks of sessions: the forms of traces, and what paced sessions read."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.load.network import FaultyTraceError, steps_of
from penstock.load.plan import Arguments, plan_of
from penstock.load.running import read_scenario

from .runs import load, penstock, titles, viewers

SABRE = json.dumps(
    [
        {"duration_ms": 500, "bandwidth_kbps": 8000, "latency_ms": 20},
        {"duration_ms": 1500, "bandwidth_kbps": 0, "latency_ms": 80},
    ]
)


def steps(directory: Path, text: str) -> list[tuple[float, float, float]]:
    path = directory / "trace"
    path.write_text(text)
    return [(step.seconds, step.rate, step.round_trip) for step in steps_of(str(path), 0.05)]


def test_json_of_sabre_has_its_durations_rates_and_latencies(tmp_path: Path) -> None:
    assert steps(tmp_path, SABRE) == [(0.5, 8e6, 0.02), (1.5, 0.0, 0.08)]


def test_deliveries_of_mahimahi_carry_their_packets(tmp_path: Path) -> None:
    found = steps(tmp_path, "".join(f"{time}\n" for time in (0, 0, 5, 99, 100, 250, 250)))
    assert sum(length for length, _, _ in found) == pytest.approx(0.25)
    packets = [length * rate / 8 / 1500 for length, rate, _ in found]
    assert packets == pytest.approx([4, 1, 2])


@pytest.mark.parametrize("text", ["0 1\n2 3.5\n5 0\n", "# seconds, Mbit/s\n0,1\n2,3.5\n\n5,0\n"])
def test_a_rate_of_two_columns_holds_until_the_next_row(tmp_path: Path, text: str) -> None:
    assert steps(tmp_path, text) == [(2, 1e6, 0.05), (3, 3.5e6, 0.05), (3, 0, 0.05)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "neither JSON nor rows"),
        ("1 2 3\n", "neither JSON nor rows"),
        ("1\n2 3\n", "neither JSON nor rows"),
        ("[{}]", "duration_ms"),
        ("[1]", "duration_ms"),
        ("[", "not as Sabre has it"),
        ("0 1\n", "has one row"),
        ("0 1\n0 1\n", "takes no time"),
        ("0 -1\n1 1\n", "negative rate"),
        ("0 0\n1 0\n", "carries nothing"),
        ("a\n", "is no number"),
        ("nan\n", "is no number"),
        ("5\n3\n", "do not rise"),
        ("0\n", "carries nothing"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FaultyTraceError, match=said):
        steps(tmp_path, text)


def networks(directory: Path, network: str) -> list[dict[str, Any]]:
    """What the generator is told of the networks of a scenario."""
    path = directory / "scenario.toml"
    path.write_text(viewers([0.0]).replace("titles = 50", f"titles = 50\nnetwork = {network}"))
    plan = json.loads(plan_of(read_scenario(str(path)), Arguments(target="http://a", duration=1, seed=1)))
    found: list[dict[str, Any]] = plan["workloads"][0]["sessions"]["networks"]
    return found


def test_a_scenario_names_presets_and_traces_beside_it(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(SABRE)
    (one,) = networks(tmp_path, '"4g"')
    assert (one["share"], one["network"]["kind"], one["network"]["round_trip"]) == (1, "chain", 0.05)
    (one,) = networks(tmp_path, '{ trace = "train.json", round_trip = 0.3 }')
    assert [step["round_trip"] for step in one["network"]["steps"]] == [0.3, 0.3]
    found = networks(tmp_path, '[{ preset = "3g", share = 0.5 }, { trace = "train.json", share = 0.25 }]')
    assert [each["share"] for each in found] == [0.5, 0.25]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        ('"5g"', "must be one of 3g, 4g, cable, bad-wifi"),
        ("{ share = 0.5 }", "one of a preset, a trace and a rate"),
        ('{ trace = "none" }', "cannot be read"),
        ('[{ preset = "3g", share = 0.6 }, { preset = "4g", share = 0.6 }]', "at most 1 together"),
        ('[{ preset = "3g", share = 0.6 }, { preset = "3g", share = 0.2 }]', "the same name"),
    ],
)
async def test_a_faulty_network_is_refused(tmp_path: Path, network: str, said: str) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text(viewers([0.0]).replace("titles = 50", f"titles = 50\nnetwork = {network}"))
    told = ("--target", "http://127.0.0.1:1", "--duration", "1", "--out", tmp_path / "run")
    status, _, errors = await penstock("load", "run", path, *told)
    assert status == 2
    assert said in errors.replace("\n", " ")


async def test_a_session_reads_no_faster_than_its_network_carries(tmp_path: Path) -> None:
    """A busy machine makes it slower, and nothing makes it faster: 30 kB at 80 kbit/s take three seconds."""
    trace = json.dumps([{"duration_ms": 1000, "bandwidth_kbps": 80, "latency_ms": 50}])
    (tmp_path / "slow.json").write_text(trace)
    async with titles(segments=12) as server:
        scenario = viewers([0.0]).replace("titles = 50", 'titles = 50\nnetwork = { trace = "slow.json" }')
        ended = await load(tmp_path, scenario, "--target", server.url, duration=60)
    (session,) = ended.sessions
    assert (session["ended"], session["network"]) == ("completed", 0)
    asked, whole = 14, ended.summary["requests"]
    carried = sum(each["bytes"] for each in whole.values())
    assert whole["segment"]["bytes"] == 12 * 2500
    # Playlists are carried as well; each request waits for a round trip, and the first for another.
    assert session["lasted"] >= carried * 8 / 80e3 + (asked + 1) * 0.05 - 0.02
    assert ended.summary["workloads"]["viewers"]["networks"]["slow"]["played"] == 1
    assert "viewers on slow" in (ended.directory / "report.html").read_text()


async def test_the_seed_decides_which_session_has_which_network(tmp_path: Path) -> None:
    times = [round(0.01 * at, 2) for at in range(60)]
    shares = '[{ preset = "cable", share = 0.4 }, { preset = "4g", share = 0.3 }]'
    found = []
    for at, seed in enumerate((7, 7, 8)):
        async with titles() as server:
            scenario = viewers(times).replace("titles = 50", f"titles = 50\nnetwork = {shares}")
            ended = await load(tmp_path / str(at), scenario, "--target", server.url, seed=seed)
            found.append([session["network"] for session in ended.sessions])
    assert found[0] == found[1] != found[2]
    assert all(5 < found[0].count(which) < 40 for which in (0, 1, None))
