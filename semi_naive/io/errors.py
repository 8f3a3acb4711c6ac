"""The exception for errors in a user's data."""


class BadInput(ValueError):
    """An error in the user's input. Its text names the place, the fault and the remedy.

    ``file`` is a path, or the name of an input that is not a file ("DataFrame", "edges[17]"). ``line`` counts from 1 in the
    decompressed file, comments included; ``column`` is the character, from 1, at which the offending field starts. Unknown
    parts are None and left out of the text.

    ``hint`` is advice for a Python program; ``shell`` is advice for the command line, if that differs.

    >>> print(BadInput("'x' is not an integer", "a.csv", 3, 5, "pass strings=True"))
    a.csv:3:5: 'x' is not an integer
      pass strings=True
    """

    def __init__(self, message, file=None, line=None, column=None, hint=None, shell=None):
        # All six go into args, so the exception survives pickling on its way from a Spark task.
        super().__init__(message, file, line, column, hint, shell)
        self.message, self.file, self.line, self.column, self.hint, self.shell = message, file, line, column, hint, shell

    def in_shell(self) -> "BadInput":
        """Return the error with the advice for the command line."""
        return BadInput(self.message, self.file, self.line, self.column, self.shell or self.hint)

    def __str__(self):
        """file:line:column: message, and the hint in a line of its own."""
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = f"{place}: {self.message}" if place else self.message
        return f"{text}\n  {self.hint}" if self.hint else text
