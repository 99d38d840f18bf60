"""A reader: `python -m hinged.service.replicas FOLDER DESCRIPTOR`, started by the server (processes.py)."""

from __future__ import annotations

from hinged.service.replicas.reader import main

if __name__ == "__main__":
    main()
