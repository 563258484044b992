"""Links between entities: taxonomies, ontologies, knowledge graphs and graphs of friends."""
