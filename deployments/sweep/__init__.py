"""Many runs from one file, side by side, resumable, with all their figures in one table."""
