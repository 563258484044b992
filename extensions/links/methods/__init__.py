"""The methods of links."""
