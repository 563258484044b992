"""An ordinary Flower app whose server aggregates by curvfed's strategies."""
