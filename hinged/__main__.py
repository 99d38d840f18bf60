"""`python -m hinged` is the command `hinged`."""

from __future__ import annotations

from hinged.commands.cli import main

if __name__ == "__main__":
    main()
