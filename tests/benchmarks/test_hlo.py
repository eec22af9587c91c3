"""The bytes that kernels move, in a program written by hand."""

import pytest

from benchmarks import hlo

pytestmark = pytest.mark.publish

PROGRAM = """HloModule jit_step

%rows (table: f32[100,4], which: s32[8]) -> f32[8,4] {
  %table = f32[100,4]{1,0} parameter(0)
  %which = s32[8]{0} parameter(1)
  ROOT %gathered = f32[8,4]{1,0} gather(%table, %which), offset_dims={1}, slice_sizes={1,4}
}

%write (row: f32[1,4], at: s32[], all: f32[100,4]) -> f32[100,4] {
  %row = f32[1,4]{1,0} parameter(1)
  %at = s32[] parameter(2)
  %zero = s32[] constant(0)
  %all = f32[100,4]{1,0} parameter(0)
  %viewed = f32[100,4]{1,0} bitcast(%all)
  ROOT %updated = f32[100,4]{1,0} dynamic-update-slice(%viewed, %row, %at, %zero)
}

%both (x: f32[100,4]) -> (f32[100], bf16[100,4]) {
  %x = f32[100,4]{1,0} parameter(0)
  %sum = f32[100]{0} reduce(%x), dimensions={1}
  %half = bf16[100,4]{1,0} convert(%x)
  ROOT %two = (f32[100]{0}, bf16[100,4]{1,0}) tuple(%sum, %half)
}

ENTRY %main (a: f32[100,4], w: s32[8]) -> f32[8,4] {
  %a = f32[100,4]{1,0} parameter(0)
  %w = s32[8]{0} parameter(1)
  %i = s32[] constant(7)
  %part = f32[1,4]{1,0} dynamic-slice(%a, %i, %i), dynamic_slice_sizes={1,4}
  %b = f32[100,4]{1,0} fusion(%a, %part, %i), kind=kLoop, calls=%write
  %c = (f32[100]{0}, bf16[100,4]{1,0}) fusion(%b), kind=kInput, calls=%both
  %d = (f32[4,4]{1,0}, s8[4194304]{0}) custom-call(%part, %part), custom_call_target="__cublas$gemm"
  %e = (f32[2]{0}, /*index=1*/pred[3]{0}) copy(%e)
  ROOT %f = f32[8,4]{1,0} fusion(%b, %w), kind=kLoop, calls=%rows
}
"""


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("part", 16 + 16 + 4 + 4),  # a row, read and written, and where it is
        ("b", 16 + 16 + 4),  # a row into an array in place
        ("c", 1600 + 400 + 800),  # one operand, two results
        ("d", 16 + 16 + 64),  # without a workspace
        ("e", 2 * (8 + 3)),
        ("f", 128 + 32 + 128),  # eight rows of a hundred, and which
    ],
)
def test_bytes_of_a_kernel(name, moved):
    program = hlo.parse(PROGRAM)
    assert program.entry == "main" and len(program.computations) == 4
    assert hlo.moved(program, "main", name) == moved
