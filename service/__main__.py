"""Run one of several server processes: `python -m hinged.service NUMBER DESCRIPTOR`. The supervisor starts it."""

from __future__ import annotations

from hinged.service.edge.orphans import end_with_the_parent

if __name__ == "__main__":
    end_with_the_parent()
    from hinged.service.process import main

    main()
