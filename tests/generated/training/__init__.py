"""Random training programs: forward and backward passes, optimizer steps and what lies between."""
