"""A worker: `python -m hinged.service.workers NUMBER DESCRIPTOR`, started by the supervisor (supervisor.py)."""

from __future__ import annotations

from hinged.service.edge.orphans import end_with_the_parent

if __name__ == "__main__":
    end_with_the_parent()
    from hinged.service.workers.worker import main

    main()
