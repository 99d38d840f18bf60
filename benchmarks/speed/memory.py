"""Peak memory of a process that loads Adult and trains one machine on it, MiB: run.py starts it."""

import resource

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
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
