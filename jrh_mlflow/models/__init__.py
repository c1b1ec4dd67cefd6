"""Ways to a model: transports, prices, and models on this machine."""
