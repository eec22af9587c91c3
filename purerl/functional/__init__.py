"""The mathematics: pure functions and pytrees of parameters, arrays in and arrays out."""
