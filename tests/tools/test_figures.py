"""Figures are named once, have settings, and are found by their names."""

import pytest

from purerl.errors import InputError

pytestmark = pytest.mark.publish


def test_figures_are_named_once_and_have_settings(script):
    names = [(figure.task, figure.label) for figure in script.FIGURES]
    assert len(set(names)) == len(names)
    for figure in script.FIGURES:
        assert script.settings_for(figure).options.seeds == figure.seeds


def test_those_without_settings_in_configs_are_told(script, capsys):
    known = script.Figure("CartPole-v1", "ppo")
    unknown = script.Figure("CartPole-v1", "redq")
    assert list(script.with_settings([unknown, known])) == [known]
    assert capsys.readouterr().out.startswith("redq on CartPole-v1: left out, as configs/ has no settings")


def test_those_whose_file_is_not_here_are_told(script, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    figure = next(figure for figure in script.FIGURES if figure.needs)
    assert list(script.with_settings([figure])) == []
    assert "left out, as disco_103.npz is not in this folder" in capsys.readouterr().out
    (tmp_path / figure.needs).touch()
    assert list(script.with_settings([figure])) == [figure]


def test_unknown_names_are_errors(script):
    with pytest.raises(InputError, match="did you mean 'CartPole-v1'"):
        script.select(["Cartpole-v1"], [])
    with pytest.raises(InputError, match="unknown algorithm with a curve on Pendulum-v1 'dqn'"):
        script.select(["Pendulum-v1"], ["dqn"])
