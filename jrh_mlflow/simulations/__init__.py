"""`jrh validate`: simulated judges of known truth put to every estimate and decision."""
