"""A user's script with a SparkSession of its own: `own_context.py MASTER WAIT PROGRAM FACTS OUT RELATION`."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from semi_naive import Program


def main(master: str, wait: str, program: str, facts: str, out: str, relation: str) -> None:
    builder = SparkSession.builder.master(master).appName("own context")
    for key, value in {"spark.locality.wait": wait, "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
                       "spark.log.level": "OFF"}.items():  # fmt: skip
        builder = builder.config(key, value)
    given = {path.stem: str(path) for path in Path(facts).iterdir()}
    with Program(Path(program).read_text()).run(given, builder.getOrCreate(), plan="balanced", local_tuples=0) as result:
        result[relation].write(f"{out}/{relation}.csv")


if __name__ == "__main__":
    main(*sys.argv[1:])
