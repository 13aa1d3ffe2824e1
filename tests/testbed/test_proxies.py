"""Proxies: refused options, their files, and real ones."""

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvmark.cli.session import named_system
from kvmark.errors import SystemUnderTestError
from kvmark.secret import Secret
from kvmark.spec.url import SystemName
from kvmark.testbed import proxy
from kvmark.testbed.console import Console
from kvmark.testbed.control import describe, restart_node, take_down
from kvmark.testbed.network import choose_ports
from kvmark.testbed.observe import Observer
from kvmark.testbed.proxy import Target, built_path, command, files
from kvmark.testbed.state import Node, Testbed, owner_of
from redis_testbeds import Run, Up

REDIS = Target("redis", "127.0.0.1:6379", "redis://127.0.0.1:6379")
CQL = Target("cql", "db", "cql://db")
KINDS: list[tuple[proxy.Kind, Target, str, tuple[str, ...]]] = [
    ("haproxy", REDIS, "haproxy.cfg",
     ("nbthread 3", "bind 127.0.0.1:7000", "server system 127.0.0.1:6379", "mode tcp")),
    ("shotover", CQL, "topology.yaml",
     ('listen_addr: "127.0.0.1:7000"', 'remote_address: "db:9042"', "CassandraSinkSingle")),
    ("shotover", REDIS, "topology.yaml", ("ValkeySinkSingle",)),
    ("cql-proxy", CQL, "cql-proxy.yaml", ("port: 9042",)),
]  # fmt: skip


def proxy_up(kind: proxy.Kind, testbed: Testbed, **more: Any) -> Testbed:
    """Starts a proxy before a Redis testbed, next to it."""
    target = Target("redis", testbed.nodes[0].address, testbed.url, **more)
    options = proxy.ProxyOptions(kind=kind, to=target, threads=1)
    return proxy.up(options, testbed.folder.parent)


def ping(testbed: Testbed) -> object:
    return Console("redis", {"address": testbed.nodes[0].address}).ask("PING")


# Refused options.


def test_a_target_without_a_port_has_the_usual_one_of_its_driver() -> None:
    assert REDIS.place == ("127.0.0.1", 6379)
    assert CQL.place == ("db", 9042)
    assert Target("cql", "[::1]:19042", "cql://[::1]:19042").place == ("::1", 19042)


def test_a_missing_system_is_reported_before_anything_is_started(root: Path) -> None:
    address = f"127.0.0.1:{choose_ports(None, 1)[0]}"
    target = Target("redis", address, f"redis://{address}")
    with pytest.raises(SystemUnderTestError, match=f"{address} can't be reached"):
        proxy.up(proxy.ProxyOptions(kind="haproxy", to=target), root)
    assert not root.exists()


def test_a_missing_haproxy_names_its_package(monkeypatch: pytest.MonkeyPatch, kvmark: Run) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"redis://127.0.0.1:{listening.getsockname()[1]}"
        code, _, err = kvmark("up", "proxy", "--kind", "haproxy", "--to", url)
    sentence = "kvmark: haproxy is missing: install it with `sudo apt-get install haproxy`\n"
    assert (code, err) == (2, sentence)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("squid --to redis://h", "squid"),
        ("haproxy", "a proxy needs its kind and a system"),
        ("haproxy --to null:", "to: null: runs inside kvmark"),
        ("haproxy --to up:none", "there is no testbed 'none'"),
        ("haproxy --to redis://h --set a=b", "--set is no option of"),
        ("haproxy --to redis://h --nodes 2", "--nodes is no option of"),
        ("haproxy --to redis://h --build debug", "build: haproxy comes in one build"),
        ("haproxy --to redis://h --threads 65", "threads: must be from 1 to 64, not 65"),
        ("haproxy --to redis://a:1,b:1", "to: a proxy stands before one host"),
        ("haproxy --to redis://h?cluster=true", "to: clients of redis://h"),
        ("shotover --to rediss://h", "to: shotover would have to decrypt"),
        ("cql-proxy --to redis://h", "to: cql-proxy speaks CQL"),
        ("cql-proxy --to cql://h?username=a&password_env=B", "to: cql-proxy logs in by itself"),
    ],
)
def test_wrong_arguments_are_reported(root: Path, words: str, sentence: str, kvmark: Run) -> None:
    code, _, err = kvmark("up", "proxy", "--kind", *words.split())
    assert (code, sentence in err, root.exists()) == (2, True, False)


def test_a_proxy_needs_its_kind_and_other_systems_have_none(kvmark: Run) -> None:
    assert kvmark("up", "redis", "--kind", "haproxy")[2].startswith("kvmark: --kind is no option")
    assert "a proxy needs its kind" in kvmark("up", "proxy", "--to", "redis://h")[2]


# Files and commands.


def test_each_kind_has_its_address_and_the_systems() -> None:
    for kind, to, name, texts in KINDS:
        text = files(kind, 7000, to, 3)[name]
        assert [expected for expected in texts if expected not in text] == []


def test_threads_reach_each_kind(tmp_path: Path) -> None:
    assert command("shotover", "shotover", tmp_path, 4)[-2:] == ("--core-threads", "4")
    assert command("cql-proxy", "cql-proxy", tmp_path, 4)[:2] == ("env", "GOMAXPROCS=4")


def test_a_fingerprint_changes_with_threads_and_not_with_ports(tmp_path: Path) -> None:
    def fingerprint(port: int, threads: int) -> str:
        texts = files("haproxy", port, REDIS, threads)
        facts = {"kind": "haproxy", "build": "", "threads": threads, "to": "", "files": texts}
        node = Node(name="haproxy", role="proxy", host="127.0.0.1", port=port, command=())
        testbed = Testbed(
            name="haproxy", system="proxy", version="haproxy 2", created="", url="", nodes=(node,),
            facts=facts, folder=tmp_path,
        )  # fmt: skip
        return str(describe(testbed)["fingerprint"])

    assert fingerprint(7000, 1) == fingerprint(7001, 1)
    assert fingerprint(7000, 1) != fingerprint(7000, 2)


# Real ones.


def test_haproxy_passes_requests_on_until_down(up: Up, root: Path, with_haproxy: None) -> None:
    system = up()
    made = proxy_up("haproxy", system)
    assert made.url == f"redis://{made.nodes[0].address}"
    assert owner_of(made.nodes[0].address, root) == made
    known = describe(made)
    assert (known["kind"], known["threads"]) == ("haproxy", 1)
    assert known["version"].startswith(("haproxy 2", "haproxy 3"))
    assert "nbthread 1" in known["settings"]["haproxy.cfg"]
    (row,) = Observer(made).sample()
    assert (row["node"], row["resident_bytes"] > 0) == ("haproxy", True)
    made = restart_node(made, "haproxy")
    assert ping(made) == "PONG"
    take_down(root, "haproxy", remove=True)
    assert ping(system) == "PONG"
    with pytest.raises(SystemUnderTestError, match="Connection refused"):
        ping(made)


def test_the_command_prints_the_proxy(up: Up, with_haproxy: None, kvmark: Run) -> None:
    system = up()
    words = ["up", "proxy", "--kind", "haproxy", "--to", "up:redis", "--name", "front", "--json"]
    made = json.loads(kvmark(*words)[1])
    assert (made["name"], made["system"]) == ("front", "proxy")
    assert psutil.pid_exists(made["nodes"][0]["pid"])
    assert named_system(SystemName("up:")).text == system.url
    assert named_system(SystemName("up:front")).text == made["url"]
    assert kvmark("down", "front")[1].startswith("Stopped front: haproxy 127.0.0.1:")


def test_options_of_the_system_stay_in_the_proxys_url(up: Up, with_haproxy: None) -> None:
    system = up(password=Secret("open sesame"))
    made = proxy_up("haproxy", system, password=True)
    options = system.url.partition("?")[2]
    assert made.url == f"redis://{made.nodes[0].address}?{options}"
    assert "open sesame" not in (made.folder / "testbed.json").read_text()


def test_shotover_passes_on(up: Up) -> None:
    if not built_path("shotover").exists():
        pytest.skip("Shotover wasn't built: kvmark up proxy --kind shotover builds it once")
    made = proxy_up("shotover", up())
    assert ping(made) == "PONG"
    assert describe(made)["build"] == "release"
