"""``python -m benchmarks``."""

from benchmarks.commands import app

if __name__ == "__main__":  # not in the processes that it starts
    app(prog_name="python -m benchmarks")
