"""`python -m curvfed`, and the script `curvfed`: the command `curvfed`."""

from typing import NoReturn

from curvfed.deployments.start import collector_off, end_with


def start() -> NoReturn:
    """Run the command line of this process."""
    end_with(_command)


def _command() -> int:
    """Import the command and run it."""
    with collector_off():
        from curvfed.deployments.commands.command import main
    return main()


if __name__ == "__main__":
    start()
