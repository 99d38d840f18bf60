"""Make `python -m hinged` the same as the command `hinged`."""

from __future__ import annotations

from hinged.commands.cli import main

if __name__ == "__main__":
    main()
