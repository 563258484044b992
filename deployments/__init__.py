"""Ways to run the app: in-process, through Flower, and the commands around a run."""
