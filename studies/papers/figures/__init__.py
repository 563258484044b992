"""The tables and figures of a paper's sweep: what `[[tables]]` and `[[figures]]` of its file ask
for."""
