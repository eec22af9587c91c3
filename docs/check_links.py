"""Check that links and pictures of built pages lead to files and anchors: `python docs/check_links.py FOLDER`."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.links, self.anchors = path, set(), {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag links to and what it can be reached by."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name in ("id", "name"):
                self.anchors.add(value)


def broken(folder: Path) -> list[str]:
    """Return a line for each link within `folder` that leads nowhere."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts}
    lines = []
    for path, page in pages.items():
        for link in sorted(page.links):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            if not target.is_file():
                lines.append(f"{path.name}: {link}: no such file")
            elif target in pages and unquote(url.fragment) not in pages[target].anchors:
                lines.append(f"{path.name}: {link}: no such anchor")
    return lines


def main() -> None:
    """Print what is broken, and fail if anything is."""
    folder = Path(sys.argv[1])
    lines = broken(folder)
    print("\n".join([*lines, f"{len(lines)} broken links in {len(list(folder.rglob('*.html')))} pages"]))
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
