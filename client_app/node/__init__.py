"""What a node decides for itself: its configuration, its keys and roster, its resources."""
