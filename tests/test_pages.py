"""The pages of algorithms and environments: each has one, and its statements about the code hold."""

import dataclasses
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from purerl import registry
from purerl.catalog.algorithms import ALGORITHMS
from purerl.catalog.environments import ENVIRONMENTS
from purerl.commands.cli import cli

DOCS = Path(__file__).parent.parent / "docs"
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "tools")]
import algorithm_pages  # noqa: E402
import environment_pages  # noqa: E402
import md  # noqa: E402

THEIRS = {"train_frequency"}  # settings of other projects that pages name


def page(folder, name):
    return (DOCS / folder / f"{name}.md").read_text(encoding="utf-8")


def sections(text):
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize(("folder", "names"), [("algorithms", ALGORITHMS), ("environments", ENVIRONMENTS)])
def test_each_has_a_page(folder, names):
    assert {path.stem for path in (DOCS / folder).glob("*.md")} == {*names, "index"}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_page_of_an_algorithm_is_complete(name):
    written = page("algorithms", name)
    text = algorithm_pages.expand(name, written)
    assert [head for head in sections(text) if head in algorithm_pages.SECTIONS] == list(algorithm_pages.SECTIONS)
    assert f"    purerl train {name} " in written and "$$" in written and "```{code-block} python" in text
    assert len(re.findall(r"^\d+\. ", written, re.MULTILINE)) >= 4
    assert not re.search(r"^\[(?!modules: )[a-z]+[\]:]", text, re.MULTILINE), "a line that stands for a part is unknown"
    assert re.search(r"arXiv:|doi:|openreview", written.partition("## References")[2])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_and_flags_that_the_page_of_an_algorithm_names_exist(name):
    text = re.sub(r"^\[peers.*?\n\n", "", page("algorithms", name), flags=re.MULTILINE | re.DOTALL)
    others = {n for link in re.findall(r"\]\(([\w-]+)\.md", text) for n in [link] if n in ALGORITHMS}
    fields = {f.name for n in {name, *others} for f in dataclasses.fields(registry.algorithm(n)[1])}
    known = fields | set(algorithm_pages.known_metrics()) | {"target_params", "global_state"} | THEIRS
    assert set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", text)) <= known
    flags = {flag for code in re.findall(r"`[^`]*`", text) for flag in re.findall(r"--([a-z][a-z-]+)", code)}
    run = CliRunner().invoke(cli, ["train", name, "CartPole-v1", "--help"]).output
    assert {flag for flag in flags if flag.replace("-", "_") not in fields and f"--{flag} " not in run} == set()


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_the_page_of_an_environment_is_complete(env_id):
    written = page("environments", env_id)
    text = environment_pages.expand(env_id, written)
    heads = [head for head in sections(text) if head in environment_pages.SECTIONS]
    assert heads == list(environment_pages.SECTIONS)
    assert "```action" in written and "```observation" in written
    assert not re.search(r"^(\[(?!modules: )[a-z]+\]|```(action|observation))", text, re.MULTILINE)
    fields = {field.name for field in dataclasses.fields(registry.environment_class(env_id))}
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", written))
    assert named <= fields | {"global_state", "row_last", "column_last"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[core: ppo.nothing]", "has no ppo.nothing"),
        ("see [line: a text that no line holds].", "0 lines"),
        ("see [line: batch].", "lines of purerl.algos.ppo hold 'batch'"),
        ("[peers: CleanRL]\nno_such_setting: 1\n", "no setting 'no_such_setting'"),
        ("[peers: CleanRL; paper]\nnum_envs: 1\n", "1 values for 2 columns"),
    ],
)
def test_a_page_that_contradicts_an_algorithm_fails(text, message):
    with pytest.raises(LookupError, match=message):
        algorithm_pages.expand("ppo", text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```observation\nposition\nvelocity\n```", "2 meanings for the 4 entries"),
        ("```action\nleft\nstay\nright\n```", "3 meanings for the 2 entries"),
        ("```observation cart\nposition\n```", "no part 'cart'"),
    ],
)
def test_a_page_that_contradicts_an_environment_fails(text, message):
    with pytest.raises(LookupError, match=message):
        environment_pages.expand("CartPole-v1", text)


def test_generated_parts_by_hand():
    text = environment_pages.expand("Pendulum-v1", "```action\ntorque | N m\n```")
    assert text.splitlines()[-1] == "| 0 | torque | N m | -2 | 2 |"
    text = algorithm_pages.expand("ppo", "[peers: CleanRL]\nnum_envs: 8\n")
    assert text.splitlines()[-1] == "| `num_envs` | `4` | 8 |"
    assert "| **Self-play** | no |" in algorithm_pages.usage("dqn")
    assert "`dr`, `plr`" in algorithm_pages.usage("a2c") and "`plr`" not in algorithm_pages.usage("pqn")
    assert "made for teams" in algorithm_pages.usage("qmix") and "both players" in algorithm_pages.usage("alphazero")


def test_sources_are_links_except_in_code():
    link = "[arXiv:1707.06347](https://arxiv.org/abs/1707.06347)"
    assert md.linked("Schulman, arXiv:1707.06347, 2017") == f"Schulman, {link}, 2017"
    for same in (link, "`arXiv:1707.06347`", "    arXiv:1707.06347", "```text\narXiv:1707.06347\n```"):
        assert md.linked(same) == same


def test_every_algorithm_that_two_pages_could_document_is_on_one():
    homes = [module for name in ALGORITHMS for module in algorithm_pages.modules_of(name)]
    wanted = {path.partition(":")[0] for entry in ALGORITHMS.values() for path in (entry.factory, entry.config)}
    assert sorted(homes) == sorted(wanted)
