"""Where the package index that pip is configured with keeps a file: the simple repository API (PEP 503, PEP 691)."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from foreword.errors import ForewordError, NotFound, Unavailable
from foreword.models.http import HttpSettings, get

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_LINE = re.compile(r"(?P<section>\S+?)\.(?P<name>[a-z-]+)=(?P<value>.+)")
_SECTIONS = ("global", "download", ":env:")
"""Sections of pip's configuration that hold for downloads, the strongest last."""


@dataclass(frozen=True, slots=True)
class PipSettings:
    """What pip is configured with."""

    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    http: HttpSettings = field(default_factory=HttpSettings)


def read_pip_settings() -> PipSettings:
    """Ask the pip of this interpreter for its settings; raise Unavailable where there is no pip."""
    values = parse_pip_config(_pip("config", "list"))
    indexes = values.get("index-url", "").split()[:1]
    if not indexes and "no-index" not in values:
        # Its help names the index that it uses when none is configured.
        indexes = re.findall(r"--index-url <url>.*?\(default\s+(\S+?)\)", _pip("download", "--help"), re.DOTALL)[:1]
    certificates = values.get("cert")
    return PipSettings(
        indexes=(*indexes, *values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        http=HttpSettings(
            certificates=certificates,
            proxy=values.get("proxy"),
            trusted_hosts=frozenset(values.get("trusted-host", "").split()),
        ),
    )


def parse_pip_config(listing: str) -> dict[str, str]:
    """Return option → value from what `pip config list` prints."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match and match["section"] in found:
            found[match["section"]][match["name"]] = str(ast.literal_eval(match["value"]))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}


def locate(project: str, filename: str, settings: PipSettings) -> str | Path:
    """Return the path or URL of a file of `project`; raise NotFound with what every place answered."""
    answers: list[str] = []
    places = [(link, link) for link in settings.find_links]
    places += [(index, f"{index.rstrip('/')}/{project}/") for index in settings.indexes]
    for place, page in places:
        folder = _local(page)
        if folder is not None:
            if (folder / filename).is_file():
                return folder / filename
            answers.append(f"{place}: no such file")
            continue
        try:
            links = _links(page, settings.http)
        except ForewordError as error:
            answers.append(error.message)
            continue
        if filename in links:
            return links[filename]
        answers.append(f"{place}: no such file")
    raise NotFound(f"{filename}: not on the configured package index ({'; '.join(answers) or 'none configured'})")


def _local(place: str) -> Path | None:
    """Return the path that a place is, None for a URL of a server."""
    scheme = urllib.parse.urlsplit(place).scheme
    if scheme == "file":
        return Path(urllib.request.url2pathname(urllib.parse.urlsplit(place).path))
    return None if scheme in ("http", "https") else Path(place)


def _links(page: str, settings: HttpSettings) -> dict[str, str]:
    """Return file name → absolute URL of a project's page."""
    with get(page, settings, headers={"Accept": _ACCEPT}) as response:
        base, kind, body = response.geturl(), response.headers.get_content_type(), response.read()
    if kind.endswith("+json"):
        return {file["filename"]: urllib.parse.urljoin(base, file["url"]) for file in json.loads(body)["files"]}
    parser = _Anchors()
    parser.feed(body.decode("utf-8", "replace"))
    urls = [urllib.parse.urldefrag(urllib.parse.urljoin(base, link)).url for link in parser.links]
    return {urllib.parse.unquote(urllib.parse.urlsplit(url).path.rpartition("/")[2]): url for url in urls}


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _pip(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"pip {arguments[0]}: got exit code {done.returncode}, wanted 0: {reason[0]}")
    return done.stdout
