"""Options: typed by their fields, held to their bounds, each with help."""

import dataclasses

import pytest

from purerl import InputError
from purerl.settings import options
from purerl.settings.options import EvolveOptions, RunOptions, SearchOptions, make_options


def test_options_are_typed_by_their_fields():
    assert make_options(SearchOptions, {"trials": 3.0, "method": "qmc"}) == SearchOptions(trials=3, method="qmc")


@pytest.mark.parametrize(
    ("cls", "values", "message"),
    [
        (SearchOptions, {"trails": 3}, "unknown setting in f.toml 'trails': did you mean 'trials'"),
        (SearchOptions, {"trials": "many"}, "f.toml: trials is 'many'; it must be: integer"),
        (SearchOptions, {"trials": 0}, "trials is 0; it must be at least 1"),
        (SearchOptions, {"method": "gird"}, "unknown method 'gird': did you mean 'grid'"),
        (EvolveOptions, {"seed": 2**32}, "seed is 4294967296; it must be an integer from 0 to 4294967295$"),
        (RunOptions, {"seed": -1, "seeds": 3}, "seed is -1; it must be an integer from 0 to 4294967293, with 3 seeds$"),
        (EvolveOptions, {"fitness": "acu"}, "unknown fitness 'acu': did you mean 'auc'"),
    ],
)
def test_bad_values(cls, values, message):
    with pytest.raises(InputError, match=message):
        make_options(cls, values, "f.toml")


@pytest.mark.long
def test_every_option_has_help_and_a_default_that_passes():
    classes = [cls for name, cls in vars(options).items() if name.endswith("Options")]
    assert len(classes) == 6
    for cls in classes:
        options.checked(cls())
        assert all(field.metadata["doc"] for field in dataclasses.fields(cls))
