"""What the sample applications cost the load generator, and whether its memory stays flat."""
