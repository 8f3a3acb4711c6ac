"""What `explain` says: of a program before it runs, by the code that decides in a run, and of a run that is done."""
