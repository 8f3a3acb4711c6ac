"""A campaign of faults: programs run while something is broken on purpose, and what they leave is judged.

A trial is a workload with a known answer, a layout, and one fault at one moment, all drawn from the trial's seed. The command
runs as a child process, in folders of its own. Either its answer is right, or it says one error that the fault may cause.
Afterwards no process and no file of it is left. Everything else is a *finding*.
"""
