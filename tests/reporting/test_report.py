"""The page of a run: whole, by itself, and safe with whatever the files hold."""

import base64
import os
import re
import shutil
from html.parser import HTMLParser

import pytest

from purerl.errors import InputError
from purerl.reporting import report


class Tags(HTMLParser):
    """Notes the tags of a page and what they refer to."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.pictures
@pytest.mark.long
def test_a_run_has_a_page_that_needs_no_other_file(run_folder):
    page = Tags((run_folder / "report.html").read_text())
    assert page.tags.count("img") == 2 and all(link.startswith("data:image/png;base64,") for link in page.links)
    words = " ".join(page.words)
    for expected in (
        "a2c on Catch",
        "purerl train --config",
        "learning_rate",
        "env.rows",
        "final return",
        "jaxlib",
        "entropy of the policy in nats",
    ):
        assert expected in words, expected


@pytest.mark.long
def test_what_files_hold_is_text(run_folder, tmp_path):
    folder = tmp_path / "<b>run"
    shutil.copytree(run_folder, folder)
    config = folder / "config.toml"
    evil = "<script>alert(1)</script>\\u001b]0;x\\u0007"
    config.write_text(re.sub('environment = ".*"', lambda _: f'environment = "{evil}"', config.read_text()))
    metrics = folder / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("entropy", "<img src=x onerror=alert(1)>", 1))
    (folder / "<i>.gif").write_bytes(b"GIF89a")
    text = report.write_report(folder).read_text()
    page = Tags(text)
    assert "script" not in page.tags and "i" not in page.tags and "b" not in page.tags
    assert all(link.startswith("data:") for link in page.links) and len(page.links) == 3
    assert "\x1b" not in text and "script-src" not in text and "default-src 'none'" in text


@pytest.mark.long
def test_several_runs_are_compared_by_task(run_folder, tmp_path):
    other, elsewhere = tmp_path / "other", tmp_path / "elsewhere"
    for folder, old, new in (
        (other, "discount = 0.99", "discount = 0.5"),
        (elsewhere, 'environment = "Catch"', 'environment = "Acrobot-v1"'),
    ):
        shutil.copytree(run_folder, folder)
        config = folder / "config.toml"
        assert old in config.read_text()
        config.write_text(config.read_text().replace(old, new))
    (other / "summary.json").unlink()
    path = report.write_comparison([run_folder, other, elsewhere], tmp_path / "both.html")
    page = Tags(path.read_text())
    words = " ".join(page.words)
    assert page.tags.count("img") == 4, "two tasks: never on one axis"
    assert "Acrobot-v1" in words and "discount" in words and "the run has not ended" in words


@pytest.mark.long
def test_a_page_marks_changed_settings_and_fits_a_phone(run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    config = folder / "config.toml"
    config.write_text(config.read_text().replace("discount = 0.99", "discount = 0.5"))
    text = report.write_report(folder).read_text()
    assert '<meta name="viewport" content="width=device-width' in text
    assert '<tr class="changed"><th>discount</th><td>0.5</td><td>default 0.99</td></tr>' in text
    assert "<tr><th>gae_lambda</th>" in text and "* differs from the default" in text
    both = report.write_comparison([run_folder, folder], tmp_path / "both.html").read_text()
    differ = both.split("Settings that differ")[1].split("</table>")[0]
    assert differ.count("<tr>") == 2 and "<tr><th>discount</th><td>0.99</td><td>0.5</td></tr>" in differ


@pytest.mark.long
def test_without_a_run_there_is_no_page(tmp_path):
    for folder, words in ((tmp_path / "no", "no such folder"), (tmp_path, "cannot read")):
        with pytest.raises(InputError, match=words):
            report.write_report(folder)


@pytest.mark.long
def test_the_last_video_of_a_training_is_shown(run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    (folder / "videos").mkdir()
    for update in (1, 2):
        (folder / "videos" / f"00000000{update}.mp4").write_bytes(b"video")
    text = report.write_report(folder).read_text()
    assert text.count("<video") == 1 and "000000002.mp4" in text


def test_what_links_point_to_is_not_shown(run_folder, tmp_path):
    """Nor is anything waited for."""
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    secret = tmp_path / "private"
    secret.mkdir()
    (secret / "key.gif").write_bytes(b"a private key")
    (folder / "a.gif").symlink_to(secret / "key.gif")
    (folder / "videos").symlink_to(secret)
    os.mkfifo(folder / "b.mp4")
    page = report.write_report(folder).read_text()
    assert base64.b64encode(b"a private key").decode() not in page and "b.mp4" not in page
    (folder / "summary.json").unlink()
    (folder / "summary.json").symlink_to(secret / "key.gif")
    with pytest.raises(InputError, match=r"summary.json: it is a link"):
        report.write_report(folder)


@pytest.mark.long
def test_many_metrics_are_shown_in_several_pictures(run_folder, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    lines = (folder / "metrics.csv").read_text().splitlines()
    more = [",".join(f"_${name}$" if i == 0 else "0.5" for name in range(300)) for i, _ in enumerate(lines)]
    (folder / "metrics.csv").write_text("".join(f"{line},{end}\n" for line, end in zip(lines, more, strict=True)))
    page = report.write_report(folder).read_text()
    assert page.count('alt="metrics"') == 3 and "more metrics: draw them with <code>purerl plot" in page
