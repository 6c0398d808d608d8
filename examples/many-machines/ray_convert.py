"""A conversion with Ray: python ray_convert.py SOURCE TARGET MAX_SHARD_SIZE.

Each node has the command `ztensor` (npm install --global ztensor) and reaches
the folders of the source and the target.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ray


def ztensor(*arguments: str, text: str | None = None) -> str:
    """Run the command and return its output."""
    command = ["ztensor", *arguments]
    done = subprocess.run(
        command, input=text, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


# A task may be done any number of times.
@ray.remote(num_cpus=2, max_retries=5, retry_exceptions=True)
def run_task(task: dict) -> dict:
    """Do one task on whichever node Ray chooses."""
    return json.loads(ztensor("task", "-", text=json.dumps(task)))


def main(source: str, target: str, size: str) -> None:
    """Plan, do all tasks, and finish."""
    plan = ztensor("convert", source, target, "--max-shard-size", size, "--plan")
    ray.init()
    tasks = json.loads(plan)["tasks"]
    results = ray.get([run_task.remote(task) for task in tasks])
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder, "job.json")
        job.write_text(plan)
        paths = [Path(folder, f"{place}.json") for place in range(len(results))]
        for path, result in zip(paths, results, strict=True):
            path.write_text(json.dumps(result))
        print(ztensor("finish", str(job), *map(str, paths)), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
