"""A cluster on simulated time: one seed is one schedule, as in FoundationDB and TigerBeetle.

    python -m tests.seeds --seeds 1000 --from 0 --jobs 2

- `world` simulates time, threads and processes on one event loop. It hands them to the product in one place.
- `network` simulates connections, `redis_model` a Redis with its scripts, `redis_client` the way to it.
- `nodes` starts the whole server behind a simulated socket: its connections, routes, cluster, engine and store.
- `scenario` draws the operations and the faults of a seed, and makes a failing scenario smaller.
- `run` runs a scenario: three nodes, three clients that retry, a follower, faults. `checks` says what must hold.
- `planted` puts faults into the product on purpose, which the seeds must find.

docs/lab/seeds.md says what runs as in production, what is simulated, and what remains outside.
"""
