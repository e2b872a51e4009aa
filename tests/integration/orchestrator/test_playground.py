"""The page at /: what is served, and a conversation in a real browser (Debian's chromium, where it is installed)."""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Page, async_playwright, expect

from orchestrator.http.page_routes import FOLDER, TYPES
from tests.integration.orchestrator.web import client_of, web

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
SWITCHES = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
REFUSED = "status of 400"
"""What a browser says of a request that the server refused, which the page tells of itself."""
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Page]:
    """Open the page; what it complains of, or asks of anybody else, fails the test."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=BROWSER, args=SWITCHES)
        page = await browser.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url.startswith(url) else complaints.append(request.url))
        await page.goto(f"{url}/")
        yield page
        await browser.close()
    assert [told for told in complaints if REFUSED not in told] == []


async def say(page: Page, text: str) -> None:
    await page.fill("#prompt", text)
    await page.click("#send")


async def test_its_files_need_no_key_and_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with web(tmp_path, drafts=0, http={"api_keys": ("secret",)}) as served, client_of(served.url) as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'none'" in page.headers["content-security-policy"]
        asked = re.findall(r'(?:href|src)="([^"#]+)"', page.text)
        for name in TYPES:
            if name != "index.html":
                found = await client.get(f"/{FOLDER}/{name}")
                assert (found.status_code, found.headers["content-type"]) == (200, TYPES[name])
                asked += re.findall(r'from "\./([^"]+)"', found.text)
                assert "http://" not in found.text.replace("http://www.w3.org/2000/svg", "")
        assert {path.rpartition("/")[2] for path in asked} == set(TYPES) - {"index.html"}
        assert (await client.get(f"/{FOLDER}/../settings.py")).status_code in (401, 404)
        assert "/" not in (await client.get("/openapi.json")).json()["paths"]


async def test_it_can_be_left_out(tmp_path: Path) -> None:
    async with web(tmp_path, drafts=0, http={"page": False}) as served, client_of(served.url) as client:
        assert (await client.get("/")).status_code == 404


@needs_browser
async def test_a_text_shows_who_wrote_it_and_is_the_same_without_drafts(tmp_path: Path) -> None:
    async with web(tmp_path) as served, opened(served.url) as page:
        await expect(page.locator("#served")).to_contain_text("synthetic")
        await expect(page.locator("#peers .up")).to_have_count(2)
        await page.select_option("[name=gamma]", "4")
        await page.fill("[name=max_tokens]", "60")
        await say(page, "w3 w1 w4")
        await expect(page.locator("#figures dd").last).to_have_text("length", timeout=30_000)
        written = page.locator("#turns .assistant").first
        assert len((await written.inner_text()).split()) == 60
        assert await written.locator(".draft").count() > 0
        assert await page.locator("#steps rect.draft").count() > 0
        assert await page.locator("#parts .part").count() == 7
        await expect(page.locator("#why")).to_contain_text("γ 4 (fixed)")
        await page.click("#compare")
        await expect(page.locator("#turns .note").last).to_contain_text("the same text", timeout=30_000)
        plain = page.locator("#turns .assistant").last
        assert await plain.inner_text() == await written.inner_text()
        assert await plain.locator(".draft").count() == 0


@needs_browser
async def test_a_text_can_be_stopped_and_what_is_refused_is_said(tmp_path: Path) -> None:
    async with web(tmp_path) as served, opened(served.url) as page:
        await page.fill("[name=max_tokens]", "1500")
        await say(page, "w3 w1 w4")
        await expect(page.locator("#turns .assistant span").first).to_be_visible(timeout=30_000)
        await page.click("#stop")
        await expect(page.locator("#send")).to_be_enabled()
        assert 0 < len((await page.locator("#turns .assistant").inner_text()).split()) < 1500
        await page.click("#clear")
        await expect(page.locator("#turns li")).to_have_count(0)
        await page.fill("[name=seed]", "-4")
        await page.evaluate("document.getElementById('prompt').value = '<b>w1</b>'")
        await page.click("#send")
        await expect(page.locator("#turns .user")).to_have_text("<b>w1</b>")
        await expect(page.locator("#turns .error")).to_contain_text("seed")
