"""``python -m benchmarks``."""

from benchmarks.commands import app

if __name__ == "__main__":  # not in child processes, which import this module
    app(prog_name="python -m benchmarks")
