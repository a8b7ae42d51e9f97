"""Print the icons of the installed chat as PNG from its SVG, for systems that install no SVG. Run it when the SVG
changes; a test compares their sizes. Chromium draws them."""

import asyncio
import json
import sys
from pathlib import Path
from shutil import which

from playwright.async_api import async_playwright

STATIC = Path(__file__).parent.parent / "src" / "gatepost" / "serve" / "web" / "static"
CHROMIUM = which("chromium") or which("chromium-browser") or which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu"]


async def print_icons() -> None:
    icons = json.loads((STATIC / "manifest.json").read_text(encoding="utf-8"))["icons"]
    svg = (STATIC / "icon.svg").read_text(encoding="utf-8")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for icon in icons:
            if icon["type"] != "image/png":
                continue
            side, is_whole = int(icon["sizes"].partition("x")[0]), icon["purpose"] == "maskable"
            page = await browser.new_page(viewport={"width": side, "height": side})
            # A maskable icon is cut to any shape: its colour goes to the edge.
            ground = "#2f6f5e" if is_whole else "transparent"
            width = side * 8 // 10 if is_whole else side
            style = f"margin:0;display:grid;place-items:center;height:100vh;background:{ground}"
            sized = svg.replace("<svg ", f'<svg width="{width}" height="{width}" ', 1)
            await page.set_content(f'<body style="{style}">{sized}</body>')
            await page.screenshot(path=STATIC / Path(icon["src"]).name, omit_background=True)
        await browser.close()


if __name__ == "__main__":
    if CHROMIUM is None:
        sys.exit("Chromium is not installed: it draws the icons")
    asyncio.run(print_icons())
