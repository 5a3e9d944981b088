"""How fast Weft is, beside its alternatives, in one run on one machine."""
