"""The store on a cluster of Redis servers, and after a failover."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from hinged.service.errors import StoreUnavailable
from hinged.service.store.base import Event, Fenced, OutcomeUnknown, PositionTaken
from hinged.service.store.redis import RedisStore
from tests.helpers.redis_server import PASSWORD, RedisServer
from tests.helpers.store_events import CREATED, ONE, keys, payloads
from tests.helpers.tcp_proxy import Proxy

# -- a cluster ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_on_a_cluster_models_are_spread_over_all_servers(cluster):
    names = [f"model{n}" for n in range(12)]
    with closing(RedisStore(cluster.url)) as first:
        for name in names:
            first.create(name, CREATED)
            first.append(name, 1, [ONE, Event("learned", name.encode(), ("b",))])
            first.put_snapshot(name, 2, name.encode() * 3)
        with closing(RedisStore(cluster.url)) as store:
            assert store.models() == sorted(names)
            for name in names:
                with pytest.raises(Fenced):
                    first.append(name, 3, [ONE])
                assert payloads(store, name) == [b"{}", b"1", name.encode()]
                assert store.find(name, ["a", "b", "c"]) == {"a": 2, "b": 3}
                assert store.get_snapshot(name, 2) == name.encode() * 3
                store.trim(name, 2)
                assert store.append(name, 3, [ONE]) == 4
                assert store.end(name) == 4
            assert all(keys(node, "*:log") for node in cluster.nodes)
            for name in names:
                store.delete(name)
            assert store.models() == []
    assert not any(keys(node, "*:meta") for node in cluster.nodes)


def test_a_model_is_found_after_the_cluster_has_moved_it(cluster):
    with closing(RedisStore(cluster.url)) as store:
        store.create("moves", CREATED)
        (old,) = (node for node in cluster.nodes if keys(node, "*{moves}:log"))
        new = next(node for node in cluster.nodes if node is not old)
        with old.client() as here, new.client() as there:
            slot = here.execute_command("CLUSTER", "KEYSLOT", "{moves}")
            there.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", here.execute_command("CLUSTER", "MYID"))
            new_id = there.execute_command("CLUSTER", "MYID")
            here.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", new_id)
            found = here.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
            here.execute_command("MIGRATE", "127.0.0.1", new.port, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *found)
            with pytest.raises(StoreUnavailable) as refused:  # during the move
                store.append("moves", 1, [ONE])
            assert not isinstance(refused.value, OutcomeUnknown)
            for client in (there, here):
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", new_id)
        assert store.append("moves", 1, [ONE]) == 2
        assert payloads(store, "moves") == [b"{}", b"1"]
        assert keys(new, "*{moves}:log")
        store.delete("moves")


def test_a_cluster_that_could_lose_acknowledged_writes_is_refused_with_the_reason(cluster):
    with cluster.nodes[0].client() as client:
        client.config_set("appendfsync", "everysec")
        try:
            with pytest.raises(StoreUnavailable, match="appendfsync is everysec and must be always"):
                RedisStore(cluster.url)
        finally:
            client.config_set("appendfsync", "always")


# -- a failover -----------------------------------------------------------------------------------------------------


def test_a_failover_can_lose_the_last_acknowledged_events_and_the_next_append_says_so(tmp_path):
    with (
        RedisServer(tmp_path / "master", repl_diskless_sync_delay=0) as master,
        Proxy(master.port) as way,
        Proxy(master.port) as replication,
    ):
        with (
            RedisServer(tmp_path / "replica", replicaof=f"127.0.0.1 {replication.port}") as replica,
            closing(RedisStore(f"redis://:{PASSWORD}@127.0.0.1:{way.port}")) as store,
            replica.client() as at_replica,
            master.client() as at_master,
        ):
            store.create("m", CREATED)
            store.append("m", 1, [ONE])
            while at_master.wait(1, 1000) < 1 or not at_replica.exists("hinged:{m}:meta"):
                time.sleep(0.01)
            replication.swallow()
            assert store.append("m", 2, [Event("learned", b"lost")]) == 3
            master.kill()
            at_replica.replicaof("NO", "ONE")
            way.target = replica.port
            way.cut()
            with pytest.raises(PositionTaken, match="ends at 2, not at 3"):
                store.append("m", 3, [ONE])
            assert payloads(store, "m") == [b"{}", b"1"]
        del replica.config["replicaof"]
        with replica, closing(RedisStore(replica.url)) as store:  # the state is the replica's
            assert store.append("m", 2, [ONE]) == 3
