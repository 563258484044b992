"""Where hyperbolic rows predict the links of a hierarchy better than flat ones; see
`studies.hierarchies.__main__`."""
