"""The text of a program that XLA has compiled for a GPU: its computations, their operations, and the bytes that move.

A kernel reads its operands from memory and writes its results there. As in XLA's own cost analysis, a kernel that takes
slices or rows of an operand reads only these, and one that updates a part of an array in place writes only that part.
"""

import math
import re
from typing import NamedTuple

NO_KERNEL = {  # operations that are none
    "parameter",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "constant",
    "after-all",
    "partition-id",
    "replica-id",
}
SLICES = ("dynamic-slice", "slice", "gather")  # read as much of their first operand as they return
VIEWS = ("bitcast", "reshape")  # views of the same bytes
WIDTH = {"pred": 1, "token": 0, "opaque": 0}  # bytes of a number; others have their bits in the name


class Operation(NamedTuple):
    """An operation of a computation."""

    name: str
    type: str  # such as f32[2,3]{1,0}, or a tuple of those
    kind: str  # such as fusion
    operands: tuple[str, ...]  # names
    rest: str  # what follows the operands; a parameter's number


class Program(NamedTuple):
    """A program's computations by name, each a list of operations by name, and the first one to run."""

    computations: dict[str, dict[str, Operation]]
    entry: str


def parse(text: str) -> Program:
    """Return the computations of a program."""
    computations: dict[str, dict[str, Operation]] = {}
    current, entry = "", ""
    for line in text.splitlines():
        head = re.match(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{", line)
        if head:
            current = head[2]
            computations[current] = {}
            entry = current if head[1] else entry
        elif line.startswith("}"):
            current = ""
        elif current and " = " in line:
            operation = _operation(line)
            computations[current][operation.name] = operation
    return Program(computations, entry)


def _operation(line: str) -> Operation:
    """Return the operation of a line `[ROOT] %name = type kind(%operand, ...), rest`; the type may be a tuple."""
    name, _, right = re.sub(r"/\*.*?\*/", "", line).strip().removeprefix("ROOT ").partition(" = ")
    cut = _end(right, " ")
    kind, _, rest = right[cut + 1 :].partition("(")
    close = _end(rest, ")")
    kind, inner = kind.strip(), rest[:close]
    return Operation(
        name=name.removeprefix("%"),
        type=right[:cut],
        kind=kind,
        operands=() if kind == "constant" else tuple(re.findall(r"%([\w.\-]+)", inner)),
        rest=inner if kind == "parameter" else rest[close + 1 :],
    )


def _end(text: str, sign: str) -> int:
    """Return the place of the first of a sign outside of brackets; the length of the text if there is none."""
    depth = 0
    for index, letter in enumerate(text):
        if letter == sign and depth == 0:
            return index
        depth += (letter in "({[") - (letter in ")}]")
    return len(text)


def size(type: str) -> int:
    """Return the bytes of arrays of a type."""
    total = 0
    for name, shape in re.findall(r"(\w+)\[([\d,]*)\]", type):
        bits = re.search(r"\d+", name)
        width = WIDTH[name] if name in WIDTH else int(bits[0]) / 8 if bits else 0
        total += math.ceil(width * math.prod(int(side) for side in shape.split(",") if side))
    return total


def moved(program: Program, computation: str, name: str) -> int:
    """Return the bytes that a kernel reads and writes."""
    operations = program.computations[computation]
    operation = operations[name]
    sizes = [size(operations[x].type) if x in operations else 0 for x in operation.operands]
    called = re.search(r"calls=%?([\w.\-]+)", operation.rest)
    if operation.kind == "fusion" and called:
        return _of_fusion(program.computations[called[1]], operation, sizes)
    if operation.kind in SLICES:
        return 2 * size(operation.type) + sum(sizes[1:])
    if operation.kind == "dynamic-update-slice":
        return 2 * sizes[1]
    if operation.kind == "custom-call":  # its workspace, bytes without a value, is left out
        return sum(sizes) + sum(size(part) for part in re.findall(r"\w+\[[\d,]*\]", operation.type) if part[:2] != "s8")
    return sum(sizes) + size(operation.type)


def _of_fusion(inside: dict[str, Operation], operation: Operation, sizes: list[int]) -> int:
    """Return the bytes of a fusion whose operands have some sizes."""
    users: dict[str, list[tuple[Operation, int]]] = {}
    for user in inside.values():
        for place, given in enumerate(user.operands):
            users.setdefault(given, []).append((user, place))
    parameters = {x.name: sizes[int(x.rest)] for x in inside.values() if x.kind == "parameter"}
    read = sum(min(whole, _read(inside, users, name, whole)) for name, whole in parameters.items())
    root = list(inside.values())[-1]
    results = [inside[x] for x in root.operands] if root.kind == "tuple" else [root]
    return read + sum(_written(inside, result) for result in results)


def _read(inside: dict[str, Operation], users: dict[str, list[tuple[Operation, int]]], name: str, whole: int) -> int:
    """Return the bytes of a value that is `whole` bytes large which a fusion reads."""
    total = 0
    for user, place in users.get(name, []):
        if user.kind in VIEWS:
            total += _read(inside, users, user.name, whole)
        elif user.kind in SLICES and place == 0:
            total += size(user.type)
        elif user.kind == "dynamic-update-slice" and place == 0:
            continue
        else:
            return whole
    return total


def _written(inside: dict[str, Operation], result: Operation) -> int:
    """Return the bytes that a fusion writes of a result."""
    while result.kind in VIEWS:
        result = inside[result.operands[0]]
    if result.kind == "dynamic-update-slice":
        return size(inside[result.operands[1]].type)
    return size(result.type)
