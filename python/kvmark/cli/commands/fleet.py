"""`kvmark fleet example`: files with which Kubernetes or `ray up` starts a fleet."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

import typer

from kvmark.cli.command_line import redacted_words
from kvmark.cli.options import argument, option
from kvmark.cli.output import print_answer
from kvmark.cli.registry import FIRST_WORDS, LazyGroup
from kvmark.errors import SpecError
from kvmark.spec.suggest import shown
from kvmark.spec.url import check_options

_MACHINES: Final = 3
_CPUS: Final = 8
_IMAGE: Final = "REGISTRY/kvmark:TAG"
_CLAIM: Final = "kvmark-runs"
_SECRET: Final = "kvmark-passwords"  # noqa: S105 - a name
_VOLUME: Final = "/data"
"""The image's working folder."""
_GENERATORS: Final = "generators"
_FILE: Final = "fleet.yaml"
_ENVIRONMENT: Final = "~/.kvmark/fleet.env"
_PROGRAMS: Final = "~/.kvmark/bin"
_AUTOSCALER: Final = "RAY_UP_enable_autoscaler_v2"
"""Version 2 takes the head of a list of hosts for ended, and starts one other host only."""
_JOIN_S: Final = 900
"""Workers install kvmark before they join."""
_HOST: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_IP: Final = re.compile(r"[0-9.]+")
_URL_OPTIONS: Final = re.compile(r"([\w+-]+):[^\s?]*\?(\S+)")
_RESERVED: Final = ("--fleet", "--machines", "--insecure-fleet", "--runs")


@dataclass(frozen=True, slots=True)
class _FleetCommand:
    """A command of kvmark that generates its load on a fleet."""

    name: str
    others: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables in which the command looks for passwords.

        Raises:
            SpecError: a URL has a password.
        """
        found: dict[str, None] = {}
        for scheme, query in _URL_OPTIONS.findall(" ".join(self.others)):
            options = dict(parse_qsl(query))
            check_options(options, scheme)
            found |= dict.fromkeys([options["password_env"]] if "password_env" in options else [])
        return tuple(found)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the command names, such as a workload's, by their paths here."""
        return tuple(word for word in self.others if Path(word).is_file())

    def on_fleet(self, machines: int, runs: str | None = None) -> str:
        """The command line; a front end requires kvmark's options before its own."""
        folder = () if runs is None else ("--runs", runs)
        own = ("--fleet", "auto", "--machines", str(machines), *folder)
        return shlex.join((self.name, *own, *self.others))


def example(
    kind: Literal["kubernetes", "ssh"] = argument("kubernetes|ssh", "Where the fleet runs."),
    words: list[str] = argument(
        "HOST... -- COMMAND",
        "With ssh: the head, and the hosts that generate load. After --: a command of kvmark.",
    ),
    *,
    image: str | None = option("IMAGE", f"kubernetes: image of kvmark (default: {_IMAGE})."),
    machines: int | None = option(
        "N", f"kubernetes: number of machines that generate load (default: {_MACHINES}).", min=1
    ),
    cpus: int | None = option("N", f"kubernetes: cores of each (default: {_CPUS}).", min=1),
    claim: str | None = option(
        "NAME", f"kubernetes: volume claim for the runs (default: {_CLAIM})."
    ),
    user: str | None = option("NAME", "ssh: user on the hosts (default: yours)."),
    key: str | None = option("FILE", "ssh: private key."),
) -> None:
    """Prints a file that starts a fleet for a command: kubernetes or ssh.

    kubernetes prints a RayJob for KubeRay, ssh a cluster file for ray up.
    """
    from rich.text import Text

    from kvmark.spec.yaml_file import yaml_text

    own = {"--image": image, "--machines": machines, "--cpus": cpus, "--claim": claim}
    others: Mapping[str, object] = own if kind == "ssh" else {"--user": user, "--key": key}
    for name, value in others.items():
        if value is not None:
            raise SpecError(f"{name} is not for {kind}: leave it out")
    if not all(text.isprintable() for text in (*words, image or "", claim or "", key or "")):
        raise SpecError("fleet: a control character has no place in these files; leave it out")
    split = next((index for index, word in enumerate(words) if word in FIRST_WORDS), len(words))
    hosts, command = words[:split], _fleet_command(words[split:])
    if kind == "ssh":
        _check_hosts(hosts)
        file = _cluster(hosts, user or getpass.getuser(), key)
        file["file_mounts"] |= _mounted(command.files)
        head = _ssh_comments(command, len(hosts) - 1)
    elif hosts:
        raise SpecError(f"kubernetes takes no host, and {shown(hosts[0])} is no command of kvmark")
    else:
        claim = claim or _CLAIM
        count, cores = machines or _MACHINES, cpus or _CPUS
        file = _ray_job(command, image or _IMAGE, count, cores, claim)
        head = _kubernetes_comments(command, claim)
    print_answer(Text("".join(f"# {line}\n" for line in head) + yaml_text(file, None).rstrip("\n")))


def _fleet_command(words: Sequence[str]) -> _FleetCommand:
    """The command, once its options are parsed with those of a fleet.

    Raises:
        SpecError: it is missing, can't use a fleet, or has a password.
    """
    if not words:
        raise SpecError("fleet: give a command of kvmark after --: -- run ycsb/a --system URL")
    for word in words:
        if (name := word.partition("=")[0]) in _RESERVED:
            raise SpecError(f"fleet: {name} of the command is given by the file; leave it out")
    if redacted_words(words) != tuple(words):
        raise SpecError(
            "fleet: the file would have the user or password of the command; give them as options"
            " of the URL: ?username=NAME&password_env=VARIABLE"
        )
    group: Any = LazyGroup(name="kvmark")
    with typer.Context(group, info_name="kvmark") as context:
        name, kind, others = group.resolve_command(context, list(words))
        options = {one for parameter in kind.params for one in parameter.opts}
        # Some front ends parse all of their options themselves.
        if "--fleet" not in options and not kind.context_settings.get("ignore_unknown_options"):
            raise SpecError(f"fleet: kvmark {name} can't use a fleet; give run, study or ycsb")
        command = _FleetCommand(name, tuple(others))
        typed = shlex.split(command.on_fleet(1))[1:]
        with kind.make_context(name, typed, parent=context):
            pass
    return command


def _check_hosts(hosts: Sequence[str]) -> None:
    """Checks the names of the hosts.

    Raises:
        SpecError: there are less than two, or one is wrong or given twice.
    """
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise SpecError(
                f"ssh: {shown(host)} is no host's name or address; see --user and --key"
            )
        if hosts.count(host) > 1:
            raise SpecError(f"ssh: the host {host} is given twice; leave one of them out")
    if len(hosts) < 2:
        raise SpecError("ssh: give the head, which generates no load, and at least one other host")


def _mounted(files: Sequence[str]) -> dict[str, str]:
    """Files by their places on the hosts, where commands begin in the home folder.

    Raises:
        SpecError: a path leads out of it.
    """
    for file in files:
        if ".." in Path(file).parts:
            raise SpecError(
                f"ssh: {shown(file)} has no place on the hosts; give a path without '..'"
            )
    return {str(Path("~") / file): file for file in files}


def _kubernetes_comments(command: _FleetCommand, claim: str) -> list[str]:
    """How to use the manifest."""
    secret = f"kubectl create secret generic {_SECRET} --from-env-file=passwords.env"
    return [
        "For KubeRay 1.5.1 or newer. The job starts the fleet, runs the command and ends it.",
        "Image:   kvmark's, with: apt-get install -y wget && pip install 'ray[default]<3'",
        f"Start:   kubectl create -f {_FILE}",
        "Report:  kubectl logs -f job/kvmark",
        f"Records: {_VOLUME}/runs on the volume claim {claim}, which must exist",
        *([f"Files:   on that claim, too: {', '.join(command.files)}"] if command.files else ()),
        *([f"Passwords, as NAME=VALUE lines: {secret}"] if command.variables else ()),
    ]


def _ray_job(
    command: _FleetCommand, image: str, machines: int, cpus: int, claim: str
) -> dict[str, Any]:
    """A RayJob for KubeRay, with a head that generates no load."""
    volume = {"name": "runs", "persistentVolumeClaim": {"claimName": claim}}
    head = _container(command, "ray-head", image, 2, "4Gi")
    head["volumeMounts"] = [{"name": "runs", "mountPath": _VOLUME}]
    # One generator on each machine.
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"ray.io/group": _GENERATORS}},
    }
    worker = _container(command, "ray-worker", image, cpus, "8Gi")
    generators = {
        "groupName": _GENERATORS,
        **dict.fromkeys(("replicas", "minReplicas", "maxReplicas"), machines),
        "rayStartParams": {},
        "template": {"spec": {"topologySpreadConstraints": [spread], "containers": [worker]}},
    }
    cluster = {
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "rayStartParams": {"num-cpus": "0"},
            "template": {"spec": {"containers": [head], "volumes": [volume]}},
        },
        "workerGroupSpecs": [generators],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "kvmark"},
        "spec": {
            "entrypoint": f"kvmark {command.on_fleet(machines, f'{_VOLUME}/runs')}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
        },
    }


def _container(
    command: _FleetCommand, name: str, image: str, cpus: int, memory: str
) -> dict[str, Any]:
    """A container with whole cores, which aren't throttled."""
    variables = [
        {"name": one, "valueFrom": {"secretKeyRef": {"name": _SECRET, "key": one}}}
        for one in command.variables
    ]
    limits = {"cpu": str(cpus), "memory": memory}
    container = {"name": name, "image": image, "resources": {"limits": limits}}
    return {**container, "env": variables} if variables else container


def _ssh_comments(command: _FleetCommand, machines: int) -> list[str]:
    """How to use the cluster file."""
    line = f". {_ENVIRONMENT} && {_PROGRAMS}/kvmark {command.on_fleet(machines)}"
    token = "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=$(openssl rand -hex 32)"  # noqa: S105
    return [
        "Needs kvmark's wheel in dist/ and, in fleet.env, the token: \\",
        f'  (umask 077; echo "{token}" > fleet.env)',
        *(f"and there a line export {one}=PASSWORD" for one in command.variables),
        f"Start:   {_AUTOSCALER}=0 ray up -y {_FILE}",
        f"Measure: ray exec {_FILE} {shlex.quote(line)}",
        f"End:     ray exec {_FILE} '{_PROGRAMS}/ray stop'; ray down -y {_FILE}",
        f"Records: ray rsync-down {_FILE} '~/runs/' runs/",
    ]


def _cluster(hosts: Sequence[str], user: str, key: str | None) -> dict[str, Any]:
    """A cluster file for `ray up`, with a head that generates no load."""
    head, *generators = hosts
    stop, start = f"{_PROGRAMS}/ray stop", f". {_ENVIRONMENT} && {_PROGRAMS}/ray start"
    # Hosts keep the wheels of earlier starts.
    wheel = '"$(ls -t ~/.kvmark/dist/kvmark-*_$(uname -m).whl | head -n 1)[fleet]"'
    # Ray would take the head's address on its default route.
    own = f" --node-ip-address={head}" if _IP.fullmatch(head) else ""
    config = "--autoscaling-config=~/ray_bootstrap_config.yaml"
    # `ray up` returns when all hosts have joined.
    joined = (
        "import ray, time; ray.init('auto', log_to_driver=False); [time.sleep(1) for _ in iter("
        f"lambda: sum(node['Alive'] for node in ray.nodes()) >= {len(hosts)}, True)]"
    )
    return {
        "cluster_name": "kvmark",
        "provider": {"type": "local", "head_ip": head, "worker_ips": generators},
        "auth": {"ssh_user": user, **({} if key is None else {"ssh_private_key": key})},
        "file_mounts": {_ENVIRONMENT: "fleet.env", "~/.kvmark/dist": "dist"},
        "setup_commands": [
            "python3 -m venv ~/.kvmark",
            f"{_PROGRAMS}/pip install --quiet {wheel}",
        ],
        "head_start_ray_commands": [
            stop,
            f"{start} --head --port=6379{own} --num-cpus=0 --include-dashboard=false {config}",
            f'. {_ENVIRONMENT} && timeout {_JOIN_S} {_PROGRAMS}/python -c "{joined}"',
        ],
        "worker_start_ray_commands": [stop, f"{start} --address=$RAY_HEAD_IP:6379"],
    }
