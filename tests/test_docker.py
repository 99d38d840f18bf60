"""What the files for containers say, as far as it can be tried without containers."""

import re
import tomllib
from contextlib import closing

import yaml
from redis_server import DURABLE, RedisServer
from running import ROOT

from hinged.service.edge.access import refuse_open_door
from hinged.service.settings import Settings
from hinged.service.store.redis import RedisStore

COMPOSE, DOCKERFILE, IGNORED = (
    (ROOT / name).read_text() for name in ("docker-compose.yml", "docker/Dockerfile", ".dockerignore")
)


def test_the_store_takes_the_redis_of_the_compose_file(tmp_path):
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


def test_the_server_starts_as_it_is_deployed_and_open_to_nobody_but_this_machine():
    image = dict(re.findall(r"HINGED_(\w+)=(\S+)", DOCKERFILE))
    composed = yaml.safe_load(COMPOSE)["services"]["hinged"]
    assert all(port.startswith("127.0.0.1:") for port in composed["ports"])
    deployment, _ = yaml.safe_load_all((ROOT / "docker" / "kubernetes.yaml").read_text())
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    orchestrated = {variable["name"]: variable.get("value", "redis://redis") for variable in container["env"]}
    assert "HINGED_OPEN" not in orchestrated
    for environment in (composed["environment"], orchestrated):
        given = image | {name.removeprefix("HINGED_"): value for name, value in environment.items()}
        refuse_open_door(Settings(**{name.lower(): value for name, value in given.items()}))


def test_the_image_waits_longer_for_the_server_to_end_than_the_server_takes():
    grace_s = [int(seconds) for seconds in re.findall(r"stop_grace_period: (\d+)s", COMPOSE)]
    kubernetes = (ROOT / "docker" / "kubernetes.yaml").read_text()
    grace_s += [int(seconds) for seconds in re.findall(r"terminationGracePeriodSeconds: (\d+)", kubernetes)]
    assert len(grace_s) == 3
    assert min(grace_s) > 20
