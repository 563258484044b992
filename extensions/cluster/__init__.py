"""Clusters of real machines: their commands, services of systemd, jobs of Slurm, containers."""
