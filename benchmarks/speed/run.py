"""Measure the speed of the solvers. Each target and its peer run alternately; results are median CPU seconds.

    PYTHONPATH=.:benchmarks python benchmarks/speed/run.py --data FOLDER [--parts NAME ...] [--full] [--plot FILE]

The program takes about six minutes, mostly for LIBSVM; --full adds MNIST. Programs run on one thread. --plot writes the
plot of the part "growth" as SVG (needs matplotlib). On a shared machine, only the ratios are reliable.
"""

from datasets import arguments
from stepping import exact, growth, prediction, single
from targets import print_table
from training import adult, budget, ijcnn, mnist

PARTS = {part.__name__: part for part in (adult, ijcnn, budget, single, prediction, growth, exact, mnist)}
FULL = ("mnist",)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS)
    parser.add_argument("--full", action="store_true", help="MNIST too")
    parser.add_argument("--plot", help="write the figure of part growth here")
    options = parser.parse_args()
    chosen = options.parts or [name for name in PARTS if options.full or name not in FULL]
    print(f"{options.runs} rounds\n")
    print_table({f"speed-{name}": [PARTS[name]] for name in chosen}, options)


if __name__ == "__main__":
    main()
