"""Compile time by phase, from XLA's log."""

import pytest

from benchmarks import passes

pytestmark = pytest.mark.publish

LOG = """
I1129 02:36:41 19242 file.cc:1] HLO pass: priority-fusion time: 1.5 s (1.5 s) (cumulative: 2 s)
I1129 02:36:41 19242 file.cc:1] HLO pass: priority-fusion time: 500 ms (500 ms) (cumulative: 2 s)
I1129 02:36:41 19242 file.cc:1] HLO pass: fusion-wrapper time: 9 s (9 s) (cumulative: 9 s)
I1129 02:36:42 19242 file.cc:1] GpuCompiler::RunHloPasses for jit_init time: 3.25 s (3.25 s)
I1129 02:36:43 19242 file.cc:1] NVPTXCompiler::CompileTargetBinary - CompileToPtx for jit_init time: 40 ms (4 us)
I1129 02:36:43 19243 file.cc:1] NVPTXCompiler::CompileTargetBinary - CompileToPtx for jit_init time: 60 ms (4 us)
I1129 02:36:43 19243 file.cc:1] NVPTXCompiler::CompileTargetBinary - PtxToCubin for jit_init time: 700000 us (4)
"""


def test_phases_of_a_log():
    seconds, kernels = passes.phases(LOG)
    assert seconds == pytest.approx({"fusion": 2.0, "passes": 3.25, "llvm": 0.1, "assembled": 0.7})
    assert kernels == 2


def test_a_compilation_is_logged():
    traced, compiled, log = passes.compiled_with_log("CPU", "evaluate")
    seconds, kernels = passes.phases(log)
    assert traced > 0 and 0 < seconds["fusion"] < seconds["passes"] < compiled and seconds["llvm"] > 0
    assert kernels > 0
