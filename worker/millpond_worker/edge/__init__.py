"""The ports' real versions, and the simulated ones that tests run against."""
