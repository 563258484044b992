"""`python -m curvfed`: the command `curvfed`."""

import sys

from curvfed.deployments.commands.command import main

if __name__ == "__main__":
    sys.exit(main())
