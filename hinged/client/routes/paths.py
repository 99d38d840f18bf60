"""Where things are on a server."""

from urllib.parse import quote


def path_of(model: str) -> str:
    """The path of a model."""
    return f"/models/{quote(model, safe='')}"


def path_of_example(model: str, example: str) -> str:
    """The path of an example."""
    return f"{path_of(model)}/examples/{quote(example, safe='')}"


def path_of_shadow(model: str, shadow: str) -> str:
    """The path of a challenger."""
    return f"{path_of(model)}/shadows/{quote(shadow, safe='')}"


def path_of_lease(model: str, lease: str, action: str) -> str:
    """The path of what is done with a lease."""
    return f"{path_of(model)}/queries/{quote(lease, safe='')}/{action}"
