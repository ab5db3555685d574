"""A process of one side: sets cases up as they are asked for, and times them.

    .venv/bin/python bench/worker.py ours        the module with the cases: bench/ours.py

Questions and answers are lines of JSON: {"case": "update", "arguments": {"agent": "fqf"}, "count": 10} is answered by
{"seconds": 1.7}; {"forget": true} drops what was set up.
"""

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print, too
    module, made = importlib.import_module(sys.argv[1]), {}
    print(json.dumps({"versions": module.versions()}), file=answers, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        if question.get("forget"):
            made.clear()
            answer = {}
        else:
            name = json.dumps([question["case"], question["arguments"]])
            if name not in made:
                made[name] = module.CASES[question["case"]](**question["arguments"])
            answer = {"seconds": made[name](question["count"])}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
