"""Many runs: sweeps, comparisons of methods, and their pages."""

SHIPPED = "extensions.sweeps.shipped"
"""The folder of the shipped sweep files, as `package_files` takes it."""
