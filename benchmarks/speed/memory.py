"""Peak memory of a process that loads Adult and trains one machine on it, MiB: run.py starts it."""

from pathlib import Path

from datasets import arguments
from papers.problems import finish, fitted, learn, problem


def lasvm(whole):
    solver = whole.solver("lasvm")
    learn(solver, whole)
    finish(solver)


PROGRAMS = {
    "lasvm": lasvm,
    "svc": fitted,
    "svc, default cache": lambda whole: fitted(whole, cache_mb=200),
    "data alone": lambda _: None,
}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--program", choices=PROGRAMS, required=True)
    options = parser.parse_args()
    PROGRAMS[options.program](problem(options.data, "adult", 0.005, 100).shuffled(0))
    # Not getrusage's figure, which begins with the parent's memory.
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    print(int(status["VmHWM"].split()[0]) / 1024)


if __name__ == "__main__":
    main()
