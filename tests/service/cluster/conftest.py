"""The first two servers of a module's `nodes`."""

import pytest


@pytest.fixture(scope="module")
def here(nodes):
    return nodes.servers[0]


@pytest.fixture(scope="module")
def there(nodes):
    return nodes.servers[1]
