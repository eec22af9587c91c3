"""The table of extensions."""

import dataclasses

import pytest

from purerl import registry
from purerl.catalog.extensions import EXTENSIONS
from purerl.loop.extension import Extension
from purerl.settings.extensions import rows


@pytest.mark.parametrize("name", EXTENSIONS)
def test_each_row_is_an_extension_of_its_name(name):
    row = registry.load(EXTENSIONS[name])
    assert isinstance(row, Extension) and row.name == name
    assert set(row.excludes) <= set(EXTENSIONS) - {name}
    assert all(field.metadata["doc"] for field in dataclasses.fields(row.options))
    assert not row.is_on(row.options()), "the defaults leave it off"


def test_the_order_is_that_of_the_table():
    assert [row.name for row in rows()] == list(EXTENSIONS)
