"""`purerl benchmark`, and beside it figures of many agents at once: `python scripts/benchmark.py scale`."""

import sys

from purerl.cli import main

if __name__ == "__main__":
    if sys.argv[1:] == ["scale"]:
        import benchmark_scale

        benchmark_scale.main()
    else:
        main(["benchmark", *sys.argv[1:]])
