"""Read the number of processes from the settings. Some settings have a current and a former name."""

from __future__ import annotations

from hinged.service.errors import Invalid
from hinged.service.settings import Settings


def as_processes(settings: Settings) -> tuple[Settings, int]:
    """Return (settings, division): settings that use only `processes` and `followers`, and the number of parts of a new
    store, 0 for none.

    Raise Invalid if several settings ask for processes. HINGED_READERS and HINGED_WORKERS are former names and will be
    removed in the next version. A reader follows all models of one owner. A worker owns a part and follows no models.
    """
    asked = {
        f"HINGED_{name.upper()}={count}": count
        for name, usual in (("readers", 0), ("workers", 0), ("processes", 1))
        if (count := getattr(settings, name)) != usual
    }
    if len(asked) > 1:
        raise Invalid(f"set the number of processes once, in HINGED_PROCESSES, got {' and '.join(asked)}")
    processes, followers, division = settings.processes, settings.followers, settings.processes
    if settings.readers:
        processes, division = settings.readers + 1, 0
        followers = settings.readers
    elif settings.workers:
        processes = division = settings.workers
    chosen = settings.model_copy(update={"processes": processes, "followers": min(followers, processes - 1)})
    return chosen, 0 if processes == 1 else division
