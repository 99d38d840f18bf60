"""A reader: `python -m hinged.service.replicas FOLDER DESCRIPTOR`, started by the server (processes.py)."""

from __future__ import annotations

from hinged.service.edge.orphans import end_with_the_parent

if __name__ == "__main__":
    end_with_the_parent()
    from hinged.service.replicas.reader import main

    main()
