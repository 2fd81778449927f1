"""What is in deploy/ and the Dockerfile, held against each platform's schema or linter, and the shim."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import compose_spec
import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from shim.cli.main import cli
from shim.config import Config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
UNIT = DEPLOY / "systemd" / "taskshim.service"
MMAP_THRESHOLD = "MALLOC_MMAP_THRESHOLD_=131072"
RESOURCES = [
    one
    for file in sorted(KUBERNETES.glob("*.yaml"))
    if file.name != "kustomization.yaml"
    for one in yaml.safe_load_all(file.read_text("utf-8"))
]
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["taskshim"]


def strictly_checked(*accept: str, config: Path | None = None):
    """Check a config by `taskshim check --strict`; it must pass."""
    words = ["check", "--strict", *(word for key in accept for word in ("--accept", key))]
    result = CliRunner().invoke(cli, words if config is None else [*words, "--config", str(config)])
    assert result.exit_code == 0, result.output
    return result


def resource(kind: str, name: str = "taskshim"):
    [found] = [one for one in RESOURCES if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def pod():
    return resource("Deployment")["spec"]["template"]["spec"]


def unit(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)


# the image


def test_the_dockerfile_is_clean():
    ran = subprocess.run(
        [Path(sys.executable).parent / "hadolint", str(ROOT / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "")


def test_the_image_runs_as_nobody_of_note_and_knows_its_health():
    user = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert user == [("10001", "10001")]
    [check] = re.findall(r"^HEALTHCHECK .*CMD \[(.+)\]$", DOCKERFILE, re.MULTILINE)
    name, command = re.findall(r'"([^"]+)"', check)
    assert name == "taskshim"
    assert command in cli.commands


def test_the_image_has_its_bytecode():
    """Who may write nothing would make it anew for each health check."""
    made = re.findall(r"compileall -q --invalidation-mode unchecked-hash (\S+)$", DOCKERFILE, re.MULTILINE)
    python = re.findall(r"^FROM python:(\d+\.\d+)", DOCKERFILE, re.MULTILINE)
    assert made == ["/opt/taskshim/lib", f"/usr/local/lib/python{python[-1]}"]
    assert len(set(python)) == 1
    assert "PYTHONDONTWRITEBYTECODE=1" in DOCKERFILE
    assert f"    {MMAP_THRESHOLD} \\\n" in DOCKERFILE


def test_the_image_is_built_from_what_its_context_holds():
    copied = {
        one
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for one in line.split()
    }
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line[0] == "!"}
    assert copied == let_in
    assert all((ROOT / one).exists() for one in copied)


# compose


def test_the_compose_file_is_of_the_specification():
    compose_spec.PyCompose.from_yaml((DEPLOY / "compose.yaml").read_text("utf-8")).validate()


def test_the_compose_file_takes_the_container_everything_it_does_not_need():
    assert COMPOSE["read_only"] is True
    assert COMPOSE["cap_drop"] == ["ALL"]
    assert COMPOSE["security_opt"] == ["no-new-privileges:true"]
    assert COMPOSE["volumes"] == ["state:/var/lib/taskshim"]
    assert all(port.startswith("127.0.0.1:") for port in COMPOSE["ports"])


def test_its_variables_are_keys_of_the_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, value in COMPOSE["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    monkeypatch.setenv("TASKSHIM_UPSTREAM_URL", "http://server:3000/mcp")
    accepted = ["identity.sources", "upstream.dialect", "upstream.url"]  # whoever tries it out is alone
    result = strictly_checked(*accepted)
    assert tomllib.loads(result.stdout)["listen"]["allowed_hosts"] == ["localhost", "127.0.0.1"]


# Kubernetes


@pytest.mark.parametrize("one", RESOURCES, ids=lambda one: f"{one['kind']}/{one['metadata']['name']}")
@pytest.mark.parametrize("version", ["1.30", "1.37"])
def test_a_manifest_is_of_its_schema(one, version):
    kubernetes_validate.validate(one, version, strict=True)


def test_the_kustomization_names_every_manifest():
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(file.name for file in KUBERNETES.iterdir())


def test_one_process_holds_the_ledger():
    spec = resource("Deployment")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert resource("PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteOncePod"]


def test_the_pod_may_do_nothing_but_serve():
    assert pod()["automountServiceAccountToken"] is False
    security = pod()["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}\n" in DOCKERFILE
    [container] = pod()["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]


def test_everything_that_is_named_is_there():
    [container] = pod()["containers"]
    volumes = {one["name"]: one for one in pod()["volumes"]}
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    assert resource("PersistentVolumeClaim", volumes["state"]["persistentVolumeClaim"]["claimName"])
    assert resource("ConfigMap", volumes["config"]["configMap"]["name"])
    assert resource("Secret", volumes["secrets"]["secret"]["secretName"])
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    probes = {
        name: container[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert {probe["port"] for probe in probes.values()} == {"admin"}
    assert [probe["path"] for probe in probes.values()] == ["/readyz", "/readyz", "/healthz"]
    for name, port in [("taskshim", "mcp"), ("taskshim-admin", "admin")]:
        spec = resource("Service", name)["spec"]
        assert spec["selector"] == resource("Deployment")["spec"]["selector"]["matchLabels"]
        assert [(one["port"], one["targetPort"]) for one in spec["ports"]] == [(ports[port], port)]
    config = Config.model_validate(tomllib.loads(resource("ConfigMap")["data"]["taskshim.toml"]))
    assert (config.listen.port, config.admin.port) == (ports["mcp"], ports["admin"])
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert config.identity.api_key.file is not None
    named = [config.ledger.path, config.audit.path, config.identity.key_file, config.identity.api_key.file]
    assert {str(one.parent) for one in named if one} <= mounts


def test_it_has_time_to_stop():
    needed_s = Config().limits.shutdown_ms / 1000
    assert pod()["terminationGracePeriodSeconds"] > needed_s
    assert int(COMPOSE["stop_grace_period"].removesuffix("s")) > needed_s
    assert int(unit("TimeoutStopSec")[0]) > needed_s
    assert int(unit("TimeoutStartSec")[0]) > Config().ledger.lock_wait_ms / 1000


def placed(text: str, folder: Path) -> Path:
    """Give a config of deploy/ as it is on a machine where its folders are."""
    (folder / "api-keys").touch(0o600)
    (folder / "api-keys").write_text("ann = key\n")
    for place in ("/var/lib/taskshim/", "/etc/taskshim/", "/run/secrets/taskshim/"):
        text = text.replace(place, f"{folder}/")
    (folder / "placed.toml").write_text(text)
    return folder / "placed.toml"


def test_its_config_is_strict_but_for_the_address_that_the_network_policy_shuts(tmp_path):
    text = resource("ConfigMap")["data"]["taskshim.toml"]
    strictly_checked("admin.host", "upstream.url", config=placed(text, tmp_path))


# systemd


def test_the_config_for_production_is_strict(tmp_path):
    strictly_checked(config=placed((DEPLOY / "taskshim.toml").read_text("utf-8"), tmp_path))


def installed(folder: Path) -> Path:
    """Give the unit as it is on a machine where its command is there."""
    command = folder / "taskshim"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    copy = folder / "taskshim.service"
    copy.write_text(UNIT.read_text("utf-8").replace("/opt/taskshim/bin/taskshim", str(command)))
    return copy


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize(
    "words", [("verify", "--man=no"), ("security", "--offline=true", "--no-pager", "--threshold=15")]
)
def test_the_unit_is_good_and_exposes_little(words, tmp_path):
    command = ["systemd-analyze", *words, str(installed(tmp_path))]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""


def test_the_unit_does_what_the_shim_understands():
    assert unit("Type") == ["notify"]
    assert unit("ExecReload") == [
        "/bin/sh -c '/opt/taskshim/bin/taskshim check >/dev/null'",
        "/bin/kill -HUP $MAINPID",
    ]
    assert int(unit("WatchdogSec")[0]) > Config().limits.shutdown_ms / 1000
    [start] = unit("ExecStart")
    assert start.split() == ["/opt/taskshim/bin/taskshim", "serve"]
    assert unit("Environment") == ["TASKSHIM_CONFIG=/etc/taskshim/taskshim.toml", MMAP_THRESHOLD]
    assert unit("UMask") == ["0077"]
    config = Config.model_validate(tomllib.loads((DEPLOY / "taskshim.toml").read_text("utf-8")))
    state = {
        str(one.parent) for one in (config.ledger.path, config.audit.path, config.identity.key_file) if one
    }
    assert state == {f"/var/lib/{unit('StateDirectory')[0]}"}
