"""Run a program of Nemo from the shell, with the options that the other engines' commands take:

    python -m bench.nemo_command PROGRAM.rls -F FACTS -jN -D OUTPUTS

Nemo has one thread. The files that the program imports are in the folder FACTS.
"""

import argparse
import os
import re
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("-F", dest="facts", required=True)
    parser.add_argument("-D", dest="outputs", type=Path, required=True)
    parser.add_argument("-j", dest="jobs")
    options = parser.parse_args()
    import nmo_python as nemo

    text, outputs = options.program.read_text(), nemo.NemoOutputManager(str(options.outputs.resolve()), overwrite=True)
    os.chdir(options.facts)
    engine = nemo.NemoEngine(nemo.load_string(text))
    engine.reason()
    for relation in re.findall(r"@export (\w+)", text):
        engine.write_result(relation, outputs)


if __name__ == "__main__":
    main()
