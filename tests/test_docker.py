"""The files for containers are right, as far as a test without containers can tell."""

import re
import shutil
import subprocess
import sys
import tomllib
from contextlib import closing

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hinged.commands.balance import balance
from hinged.service.cluster.node import as_node
from hinged.service.edge.access import refuse_open_door
from hinged.service.settings import Settings
from hinged.service.store.redis import RedisStore
from tests.helpers.redis_server import DURABLE, RedisServer
from tests.helpers.server import ROOT

COMPOSE, DOCKERFILE, IGNORED = (
    (ROOT / name).read_text() for name in ("docker-compose.yml", "docker/Dockerfile", ".dockerignore")
)
KUBERNETES = ROOT / "docker" / "kubernetes"


def test_the_store_accepts_the_redis_of_the_compose_file(tmp_path):
    command = COMPOSE.split("exec redis-server", 1)[1].split("\n    user:")[0].replace("\\\n", " ")
    given = dict(re.findall(r"--([\w-]+) (\S+)", command))
    assert set(DURABLE) <= set(given)
    given["save"] = given["save"].strip('"')
    with RedisServer(tmp_path, **given) as server, closing(RedisStore(server.url)) as store:
        assert store.models() == []


def test_the_image_gets_every_package():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in packages["packages"]:
        assert f"COPY {package} {package}\n" in DOCKERFILE
        assert f"!{package}\n" in IGNORED
    for file in ("pyproject.toml", "hatch_build.py", "LICENSE"):
        assert f"{file} " in DOCKERFILE
        assert f"!{file}\n" in IGNORED


def test_the_image_installs_versions_that_were_tested_and_that_the_project_allows():
    assert "--constraint tested.txt" in DOCKERFILE
    tested = {
        canonicalize_name(name): version
        for name, version in (line.split("==") for line in (ROOT / "docker" / "tested.txt").read_text().split())
    }
    program = [sys.executable, "docker/dependencies.py"]
    wanted = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    assert wanted
    for requirement in map(Requirement, wanted):
        assert tested[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_the_deployed_settings_are_valid_and_open_the_server_to_this_machine_alone():
    image = dict(re.findall(r"HINGED_(\w+)=(\S+)", DOCKERFILE))
    composed = yaml.safe_load(COMPOSE)["services"]["hinged"]
    assert all(port.startswith("127.0.0.1:") for port in composed["ports"])
    deployment = yaml.safe_load((KUBERNETES / "base" / "deployment.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    orchestrated = {variable["name"]: variable.get("value", "redis://redis") for variable in container["env"]}
    assert "HINGED_OPEN" not in orchestrated
    for environment in (composed["environment"], orchestrated):
        given = image | {name.removeprefix("HINGED_"): value for name, value in environment.items()}
        refuse_open_door(Settings(**{name.lower(): value for name, value in given.items()}))


def test_every_image_has_the_tag_of_the_newest_version():
    version = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    files = ("docker-compose.yml", "docker/kubernetes/several/balance.yaml", "docker/kubernetes/base/deployment.yaml")
    names = [name for file in files for name in re.findall(r"image: (hinged\S*)", (ROOT / file).read_text())]
    names += re.findall(r"-t (\S+)", DOCKERFILE + (ROOT / "docs" / "reference" / "settings.md").read_text())
    assert names == [f"hinged:{version}"] * 5


@pytest.mark.parametrize(
    ("heading", "status"), [("0.3.0 - 2026-12-24", 0), ("0.3.0 - unreleased", 2), ("0.4.0 - 2026-12-24", 2)]
)
def test_a_release_needs_the_date_of_its_version(tmp_path, heading, status):
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "hinged").mkdir()
    (tmp_path / "hinged" / "version.py").write_text('__version__ = "0.3.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.3.0 - 2026-01-01\n")
    made = subprocess.run(["make", "dated"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert made.returncode == status
    assert (f"begins with '## {heading}', expected '## 0.3.0 - YEAR-MONTH-DAY'" in made.stderr) == (status != 0)


def test_containers_give_the_server_more_time_to_end_than_it_needs():
    grace_s = [int(seconds) for seconds in re.findall(r"stop_grace_period: (\d+)s", COMPOSE)]
    kubernetes = (KUBERNETES / "base" / "deployment.yaml").read_text()
    grace_s += [int(seconds) for seconds in re.findall(r"terminationGracePeriodSeconds: (\d+)", kubernetes)]
    assert len(grace_s) == 3
    assert min(grace_s) > 20


@pytest.mark.parametrize("folder", ["base", "embedded", "several"])
def test_a_kustomization_lists_each_file_of_its_folder_and_each_file_describes_one_resource(folder):
    kustomization = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())
    assert kustomization["kind"] == "Kustomization"
    patches = {patch["path"] for patch in kustomization.get("patches", [])}
    listed = {name for name in kustomization["resources"] if not name.startswith("..")} | patches
    files = {path.name for path in (KUBERNETES / folder).iterdir()} - {"kustomization.yaml"}
    assert listed == files
    for name in files:
        described = yaml.safe_load((KUBERNETES / folder / name).read_text())
        if isinstance(described, dict):  # a list is a patch: the kustomization names its target
            assert described["metadata"]["name"] in {"hinged", "hinged-nodes", "hinged-balance"}


def test_the_embedded_store_has_a_claim_instead_of_redis_and_of_the_empty_folder():
    base, patch = (yaml.safe_load((KUBERNETES / name / "deployment.yaml").read_text()) for name in ("base", "embedded"))
    claim = yaml.safe_load((KUBERNETES / "embedded" / "claim.yaml").read_text())
    assert [patch[part] for part in ("apiVersion", "kind")] == [base[part] for part in ("apiVersion", "kind")]
    pod, changed = (each["spec"]["template"]["spec"] for each in (base, patch))
    (container,) = changed["containers"]
    assert container["env"] == [{"name": "HINGED_STORE", "$patch": "delete"}]
    assert "HINGED_STORE" in {variable["name"] for variable in pod["containers"][0]["env"]}
    (volume,) = changed["volumes"]
    assert volume["name"] in {each["name"] for each in pod["volumes"]}
    assert volume["emptyDir"] is None
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def patched(described, patch):
    """Apply a JSON patch (RFC 6902), with the operations that the patches here use."""
    for change in patch:
        *way, last = change["path"].strip("/").split("/")
        place = described
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        if isinstance(place, list):
            assert (change["op"], last) == ("add", "-")
            place.append(change["value"])
        elif change["op"] == "add":
            place[last] = change["value"]
        else:
            assert last in place, change
            del place[last]
            if change["op"] == "replace":
                place[last] = change["value"]
    return described


def test_several_servers_are_the_base_and_each_server_has_an_address_of_its_own():
    base, patch, nodes = (
        yaml.safe_load((KUBERNETES / name).read_text())
        for name in ("base/deployment.yaml", "several/stateful.yaml", "several/nodes.yaml")
    )
    spec = patched(base, patch)["spec"]
    assert (base["kind"], spec["serviceName"], "strategy" in spec) == ("StatefulSet", nodes["metadata"]["name"], False)
    environment = {
        variable["name"]: variable.get("value", "redis://redis")
        for variable in spec["template"]["spec"]["containers"][0]["env"]
    }
    # In the value of a variable, Kubernetes replaces only variables that are defined earlier.
    assert list(environment).index("POD_NAME") < list(environment).index("HINGED_NODE")
    address = environment.pop("HINGED_NODE").replace("$(POD_NAME)", "hinged-0")
    (port,) = nodes["spec"]["ports"]
    assert address == f"http://hinged-0.{nodes['metadata']['name']}:{port['port']}"
    given = {name.removeprefix("HINGED_").lower(): value for name, value in environment.items() if name != "POD_NAME"}
    hosts = as_node(Settings(node=address, **given)).allowed_hosts
    assert {"hinged", f"hinged-0.{nodes['metadata']['name']}"} < set(hosts)


def test_the_controller_asks_the_service_and_its_arguments_are_options_of_the_command():
    pod = yaml.safe_load((KUBERNETES / "several" / "balance.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    service = yaml.safe_load((KUBERNETES / "base" / "service.yaml").read_text())
    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert environment["HINGED_URL"] == f"http://{service['metadata']['name']}"
    assert service["spec"]["ports"][0]["port"] == 80
    *command, option = container["args"]
    assert command == ["cluster", "balance"]
    options = {word: parameter.envvar for parameter in balance.params for word in parameter.opts}
    assert option in options
    assert {"HINGED_STORE", "HINGED_URL"} <= set(options.values()) & set(environment)
