"""Links between entities, such as taxonomies and knowledge graphs."""
