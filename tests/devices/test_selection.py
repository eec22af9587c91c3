"""The devices of a run, and requests that cannot be met."""

import pytest

from purerl.devices import selection
from purerl.errors import InputError


@pytest.mark.parametrize(
    ("given", "mesh", "message"),
    [
        (3, (), "3 devices are requested; there are 2 (cpu)"),
        (0, (), "devices is 0; it must be auto or an integer from 1 to 1024"),
        ("many", (), "devices is many; it must be auto or an integer from 1 to 1024"),
        ("auto", ("dat=2",), "unknown mesh axis 'dat': did you mean 'data'? allowed: data, seed, trial"),
        ("auto", ("data=x",), "mesh is 'data=x'; it must be sizes of axes, such as seed=4 or data=2,seed=4"),
        (2, ("seed=1",), "the mesh 1 does not fill 2 devices"),
        ("auto", ("trial=2",), "the mesh axis trial is for sweeps; a run has seed and data"),
    ],
)
def test_devices_that_cannot_be(given, mesh, message):
    with pytest.raises(InputError) as caught:
        selection.choose(given, mesh, 1 if given == "auto" else 4, 4)
    assert str(caught.value) == message


def test_environments_that_cannot_be_split():
    with pytest.raises(InputError, match="num_envs 3 is not a multiple of the mesh axis data=2"):
        selection.choose(2, ("data=2",), 1, 3)
