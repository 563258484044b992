"""The page of a run: a kit of figures, tables and templates.

It reads run directories, and knows nothing of running.
"""
