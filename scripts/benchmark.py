"""`purerl benchmark`, and beside it figures of many agents at once: `python scripts/benchmark.py scale`."""

import sys

if __name__ == "__main__":
    if sys.argv[1:2] == ["scale"]:
        from benchmark_scale import main

        main(sys.argv[2:])
    else:
        from purerl.cli import main

        main(["benchmark", *sys.argv[1:]])
