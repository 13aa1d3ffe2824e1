"""Files that start a fleet: each parses as Ray and Kubernetes parse it, and has no secret."""

from __future__ import annotations

import json
import shlex
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kvmark.cli import main

RUN = ("--", "run", "ycsb/a", "--system", "cql://db?password_env=ON", "--slo", "service p99<1ms")
HOSTS = ("10.0.0.1", "10.0.0.2", "gen-3")
# YAML 1.1 reads these as other values.
USER, KEY = "no", "1e3"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str]:
    """The values of a file, by a reader of YAML 1.1, and its comments."""
    assert main(["fleet", "example", *words]) == 0
    text = capsys.readouterr().out
    comments = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    return yaml.safe_load(text), comments


def ray_folder() -> Path:
    ray = find_spec("ray")
    if ray is None or ray.origin is None:
        pytest.skip("Ray isn't installed: pip install 'kvmark[fleet]'")
    return Path(ray.origin).parent


def options_of(command: str) -> dict[str, str]:
    """Each option of a command line with the word behind it."""
    words = shlex.split(command)
    return {one: value for one, value in pairwise(words) if one[0] == "-"}


def test_ray_accepts_the_cluster_file(capsys: pytest.CaptureFixture[str]) -> None:
    file, comments = printed(capsys, "ssh", *HOSTS, "--user", USER, "--key", KEY, *RUN)
    schema = json.loads((ray_folder() / "autoscaler" / "ray-schema.json").read_text())
    jsonschema.validate(file, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**file, "hosts": []}, schema)
    assert file["provider"] == {"type": "local", "head_ip": HOSTS[0], "worker_ips": [*HOSTS[1:]]}
    assert file["auth"] == {"ssh_user": USER, "ssh_private_key": KEY}
    # The token and passwords are in a file that each command reads.
    starts = [*file["head_start_ray_commands"][1:], *file["worker_start_ray_commands"][1:]]
    assert all(one.startswith(". ~/.kvmark/fleet.env && ") for one in starts)
    assert "export ON=" in comments
    assert "RAY_AUTH_TOKEN" not in json.dumps(file)
    (line,) = (line for line in comments.splitlines() if "kvmark run" in line)
    *_, measure = shlex.split(line)
    assert options_of(measure)["--machines"] == "2"
    assert options_of(measure)["--slo"] == "service p99<1ms"


def test_kuberay_accepts_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    file, comments = printed(capsys, "kubernetes", "--image", "r/k:1", "--cpus", "4", *RUN)
    ray_folder()
    from ray.autoscaler._private.kuberay import autoscaling_config

    assert (file["apiVersion"], file["kind"]) == ("ray.io/v1", "RayJob")
    assert set(file["spec"]) == {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec"}
    cluster = file["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    # Ray reads the groups as it does on a cluster.
    metadata = {"name": "kvmark", "namespace": "default"}
    read = autoscaling_config._derive_autoscaling_config_from_ray_cr(
        {"metadata": metadata, "spec": cluster}
    )
    types = read["available_node_types"]
    assert types["headgroup"]["resources"]["CPU"] == 0
    assert types["generators"]["resources"]["CPU"] == 4
    assert types["generators"]["min_workers"] == types["generators"]["max_workers"] == 3
    options = options_of(file["spec"]["entrypoint"])
    assert options["--slo"] == "service p99<1ms"
    assert (options["--fleet"], options["--machines"]) == ("auto", "3")
    (worker,) = cluster["workerGroupSpecs"]
    pods = [cluster["headGroupSpec"]["template"]["spec"], worker["template"]["spec"]]
    for (container,) in (pod["containers"] for pod in pods):
        assert container["image"] == "r/k:1"
        assert (
            container["env"][0]["name"] == container["env"][0]["valueFrom"]["secretKeyRef"]["key"]
        )
        assert container["env"][0]["name"] == "ON"
    (spread,) = pods[1]["topologySpreadConstraints"]
    assert spread["labelSelector"] == {"matchLabels": {"ray.io/group": worker["groupName"]}}
    # The records outlive the pod.
    (mount,) = pods[0]["containers"][0]["volumeMounts"]
    assert options["--runs"].startswith(f"{mount['mountPath']}/")
    claim = pods[0]["volumes"][0]["persistentVolumeClaim"]["claimName"]
    assert (mount["name"], claim) == (pods[0]["volumes"][0]["name"], "kvmark-runs")
    assert f"{options['--runs']} on the volume claim {claim}" in comments


@pytest.mark.parametrize("command", [
    ("stress", "write", "n=100", "-node", "db"),
    ("app", "CassandraKeyValue", "--nodes", "db:9042"),
    ("ab", "ycsb/c --system redis://h", "--base", "", "--candidate", "--clients 2"),
    ("study", "hcassandra", "--system", "cql://db"),
])  # fmt: skip
def test_all_commands_for_fleets_get_its_options_first(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    file, _ = printed(capsys, "kubernetes", "--", *command)
    words = shlex.split(file["spec"]["entrypoint"])
    name, *others = command
    assert words[:4] == ["kvmark", name, "--fleet", "auto"]
    assert words[-len(others) :] == others


@pytest.mark.parametrize(("words", "sentence"), [
    (("ssh", *RUN), "give the head"),
    (("ssh", "a", *RUN), "at least one other host"),
    (("ssh", "a", "b", "a", *RUN), "a is given twice"),
    (("ssh", "me@a", "b", *RUN), "is no host's name or address"),
    (("ssh", "a", "b"), "give a command of kvmark after --"),
    (("ssh", "a", "b", "--cpus", "2", *RUN), "--cpus is not for ssh"),
    (("kubernetes", "--key", "k", *RUN), "--key is not for kubernetes"),
    (("kubernetes", "a", *RUN), "takes no host, and 'a'"),
    (("kubernetes", "--", "show", "last"), "kvmark show can't use a fleet"),
    (("kubernetes", "--", "trace", "show", "x"), "kvmark trace can't use a fleet"),
    (("kubernetes", *RUN, "--machines", "2"), "--machines of the command is given by the file"),
    (("kubernetes", *RUN, "--fleet=auto"), "--fleet of the command is given by the file"),
    (("kubernetes", *RUN, "--clients", "none"), "--clients"),
    (("kubernetes", *RUN, "--report", "a\nb.html"), "control character"),
    (("kubernetes", "--", "run", "ycsb/a", "--system", "redis://u:C4n4ry@h"), "password_env"),
    (("kubernetes", "--", "run", "ycsb/a", "--system", "redis://h?password=C4n4ry"), "_env"),
    (("kubernetes", "--", "ab", "ycsb/a --system redis://:C4n4ry@h"), "password_env"),
])  # fmt: skip
def test_wrong_use_is_one_sentence(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert main(["fleet", "example", *words]) == 2
    out, err = capsys.readouterr()
    assert sentence in err
    assert (out, err.count("\n")) == ("", 1)
    assert "C4n4ry" not in err


def test_hosts_get_the_files_that_a_command_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").touch()
    command = ("--", "run", "./mine.yaml", "--system", "redis://db")
    file, _ = printed(capsys, "ssh", *HOSTS, *command)
    assert file["file_mounts"]["~/mine.yaml"] == "./mine.yaml"
    _, comments = printed(capsys, "kubernetes", *command)
    assert "on that claim, too: ./mine.yaml" in comments
    outside = ("run", f"../{tmp_path.name}/mine.yaml", "--system", "redis://db")
    assert main(["fleet", "example", "ssh", *HOSTS, "--", *outside]) == 2
    assert "give a path without '..'" in capsys.readouterr().err
