"""Writes down how a tracker was called, and fails when told to."""

import json
import os
from pathlib import Path


def write(call, /, **arguments):
    with Path(os.environ["TRACKER_CALLS"]).open("a") as file:
        file.write(json.dumps({"call": call, **arguments}) + "\n")


failures = []


class Run:
    def __init__(self, key):
        self.key = key

    def log(self, metrics, step=None):
        if step >= int(os.environ.get("TRACKER_BREAKS_AT", "1000000")):
            raise ConnectionError("the network\nis down")
        if step >= int(os.environ.get("TRACKER_BREAKS_ONCE_AT", "1000000")) and not failures:
            failures.append(step)
            write("failed", step=step)
            raise ConnectionError("the network was down for a moment")
        write("log", run=self.key, step=step, metrics=metrics)
