"""The page in a real browser, if there is one: nothing in its console, every picture there, tables that sort."""

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from fqf.report.findings import examine
from fqf.report.write import write_report

FLAGS = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
FLAGS += " disable-component-update disable-sync"


class Browser:
    """Chromium through chromedriver, by the WebDriver protocol: a command is one HTTP request with JSON."""

    def __init__(self, address, profile):
        self._address = address
        arguments = [f"--{flag}" for flag in FLAGS.split()] + [f"--user-data-dir={profile}"]
        wanted = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.command("", {"capabilities": {"alwaysMatch": wanted}})
        self._address += f"/{answer['sessionId']}"

    def command(self, path, body=None, method="POST"):
        data = None if method == "DELETE" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._address + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def open(self, path):
        self.command("/url", {"url": path.absolute().as_uri()})

    def run(self, script):
        return self.command("/execute/sync", {"script": script, "args": []})

    def width(self, pixels):
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.command("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})

    def console(self):
        return self.command("/se/log", {"type": "browser"})


@pytest.fixture
def browser(tmp_path):
    driver = shutil.which("chromedriver")
    if driver is None or not (shutil.which("chromium") or shutil.which("google-chrome")):
        pytest.skip("no chromium with chromedriver is installed (Debian: chromium, chromium-driver)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            found = connect(f"http://127.0.0.1:{port}/session", tmp_path / "profile", process)
            yield found
            found.command("", method="DELETE")
        finally:
            process.terminate()


def connect(address, profile, process):
    for _ in range(200):
        assert process.poll() is None, "chromedriver ended"
        try:
            return Browser(address, profile)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None
        except OSError:
            time.sleep(0.1)
    raise AssertionError("chromedriver does not answer")


COLUMN = """
const table = [...document.querySelectorAll("table.sortable")].find((each) => each.caption.textContent.includes(%r));
const column = [...table.tHead.rows[0].cells].findIndex((each) => each.textContent === %r);
"""
CLICK = "table.tHead.rows[0].cells[column].querySelector('button').click();"
READ = "return [[...table.tBodies[0].rows].map((row) => row.cells[column].firstChild?.textContent ?? ''),"
READ += "table.tHead.rows[0].cells[column].getAttribute('aria-sort')];"


def test_the_page_in_a_browser(browser, write_run, tmp_path):
    for seed in range(2):
        for agent, top in (("dqn", -15.0), ("fqf", -4.5), ("iqn", 100.0)):
            write_run(agent, "atari/pong", seed, [-21.0, -3.0, top + seed])
            write_run(agent, "atari/air_raid", seed, [400.0, 900.0, 1000.0 + top])
    findings = examine([tmp_path / "runs"], ["dopamine", "paper"], resamples=100)
    browser.open(write_report(findings, tmp_path / "report").page)

    images = browser.run("return [...document.images].map((each) => [each.complete, each.naturalWidth, each.alt])")
    assert len(images) == 2 + 2 * 3
    assert all(complete and width > 0 and len(alt) > 20 for complete, width, alt in images)

    column = COLUMN % ("Finished runs", "last score")
    shown, order = browser.run(column + READ)
    assert order is None
    assert browser.run(column + CLICK + READ)[1] == "descending"
    falling, _ = browser.run(column + READ)
    numbers = [float(text.replace(",", "")) for text in falling]
    assert numbers == sorted(numbers, reverse=True)  # 1,100 before 21, and -4 before -14.5
    assert sorted(shown) == sorted(falling) != shown
    rising, order = browser.run(column + CLICK + READ)
    assert [float(text.replace(",", "")) for text in rising] == sorted(numbers)
    assert order == "ascending"

    column = COLUMN % ("Finished runs", "last, % human")  # Air Raid has none: last, whichever way
    for _ in range(2):
        cells, _ = browser.run(column + CLICK + READ)
        assert cells[-3:] == ["", "", ""]
        assert "" not in cells[:-3]
    names, order = browser.run(COLUMN % ("Finished runs", "group") + CLICK + READ)
    assert order == "ascending"
    assert names[0] == "dqn"

    for pixels in (360, 1400):  # wide tables move in their own place, the page does not
        browser.width(pixels)
        assert browser.run("return document.documentElement.scrollWidth") <= pixels
    assert browser.console() == []
