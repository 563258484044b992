"""`python -m curvfed`: the command `curvfed`."""

from curvfed.deployments.start import start

if __name__ == "__main__":
    start()
